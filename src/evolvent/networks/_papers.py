"""The papers that networks and recipes come from."""

from __future__ import annotations

from dataclasses import dataclass, field

from evolvent._core.registry import Registry


@dataclass(frozen=True)
class Paper:
    """A publication; ``venue`` is the BibTeX field that names where it appeared and its value."""

    key: str
    kind: str
    title: str
    authors: tuple[str, ...]  # "Family, Given"
    venue: tuple[str, str]
    year: int
    more: dict[str, str] = field(default_factory=dict)

    def bibtex(self) -> str:
        """The entry for a bibliography."""
        fields = {"title": self.title, "author": " and ".join(self.authors), self.venue[0]: self.venue[1], **self.more}
        lines = [f"  {name:<11} = {{{value}}}," for name, value in fields.items()]
        return "\n".join([f"@{self.kind}{{{self.key},", *lines, f"  year        = {{{self.year}}}", "}"])

    def reference(self) -> str:
        """One line for people: authors, year, title, venue."""
        families = [author.split(",")[0] for author in self.authors]
        names = families[0] if len(families) == 1 else f"{', '.join(families[:-1])} and {families[-1]}"
        text = f"{names} ({self.year}). {self.title}. {self.venue[1]}."
        return text.replace("{", "").replace("}", "").replace('\\"', "")


PAPERS: Registry[Paper] = Registry("paper")

for _paper in (
    Paper(
        "bohn2021",
        "techreport",
        "Deep Neural Networks and {PIDE} Discretizations",
        ("Bohn, Bastian", "Griebel, Michael", "Kannan, Dinesh"),
        ("institution", "Institute for Numerical Simulation, University of Bonn"),
        2021,
        {"number": "INS Preprint 2102"},
    ),
    Paper(
        "chang2018",
        "inproceedings",
        "Reversible Architectures for Arbitrarily Deep Residual Neural Networks",
        ("Chang, Bo", "Meng, Lili", "Haber, Eldad", "Ruthotto, Lars", "Begert, David", "Holtham, Elliot"),
        ("booktitle", "AAAI Conference on Artificial Intelligence"),
        2018,
    ),
    Paper(
        "han2018",
        "article",
        "Solving high-dimensional partial differential equations using deep learning",
        ("Han, Jiequn", "Jentzen, Arnulf", "E, Weinan"),
        ("journal", "Proceedings of the National Academy of Sciences"),
        2018,
        {"volume": "115", "number": "34", "pages": "8505--8510"},
    ),
    Paper(
        "he2016deep",
        "inproceedings",
        "Deep Residual Learning for Image Recognition",
        ("He, Kaiming", "Zhang, Xiangyu", "Ren, Shaoqing", "Sun, Jian"),
        ("booktitle", "IEEE Conference on Computer Vision and Pattern Recognition"),
        2016,
    ),
    Paper(
        "he2016identity",
        "inproceedings",
        "Identity Mappings in Deep Residual Networks",
        ("He, Kaiming", "Zhang, Xiangyu", "Ren, Shaoqing", "Sun, Jian"),
        ("booktitle", "European Conference on Computer Vision"),
        2016,
    ),
    Paper(
        "haber2017",
        "article",
        "Stable Architectures for Deep Neural Networks",
        ("Haber, Eldad", "Ruthotto, Lars"),
        ("journal", "Inverse Problems"),
        2017,
        {"volume": "34", "number": "1"},
    ),
    Paper(
        "ruthotto2020",
        "article",
        "Deep Neural Networks Motivated by Partial Differential Equations",
        ("Ruthotto, Lars", "Haber, Eldad"),
        ("journal", "Journal of Mathematical Imaging and Vision"),
        2020,
        {"volume": "62", "pages": "352--364"},
    ),
    Paper(
        "haber2019",
        "inproceedings",
        "{IMEXnet}: A Forward Stable Deep Neural Network",
        ("Haber, Eldad", "Lensink, Keegan", "Treister, Eran", "Ruthotto, Lars"),
        ("booktitle", "International Conference on Machine Learning"),
        2019,
    ),
    Paper(
        "lensink2019",
        "article",
        "Fully Hyperbolic Convolutional Neural Networks",
        ("Lensink, Keegan", "Haber, Eldad", "Peters, Bas"),
        ("journal", "arXiv preprint arXiv:1905.10484"),
        2019,
    ),
    Paper(
        "ephrath2020",
        "article",
        "{LeanConvNets}: Low-Cost Yet Effective Convolutional Neural Networks",
        ("Ephrath, Jonathan", "Eliasof, Moshe", "Ruthotto, Lars", "Haber, Eldad", "Treister, Eran"),
        ("journal", "IEEE Journal of Selected Topics in Signal Processing"),
        2020,
    ),
    Paper(
        "e2018",
        "article",
        "The Deep Ritz Method: A Deep Learning-Based Numerical Algorithm for Solving Variational Problems",
        ("E, Weinan", "Yu, Bing"),
        ("journal", "Communications in Mathematics and Statistics"),
        2018,
        {"volume": "6", "number": "1", "pages": "1--12"},
    ),
    Paper(
        "eliasof2023",
        "article",
        "{MGIC}: Multigrid-in-Channels Neural Network Architectures",
        ("Eliasof, Moshe", "Ephrath, Jonathan", "Ruthotto, Lars", "Treister, Eran"),
        ("journal", "SIAM Journal on Scientific Computing"),
        2023,
    ),
    Paper(
        "lu2018",
        "inproceedings",
        "Beyond Finite Layer Neural Networks: Bridging Deep Architectures and Numerical Differential Equations",
        ("Lu, Yiping", "Zhong, Aoxiao", "Li, Quanzheng", "Dong, Bin"),
        ("booktitle", "International Conference on Machine Learning"),
        2018,
    ),
    Paper(
        "chen2018",
        "inproceedings",
        "Neural Ordinary Differential Equations",
        ("Chen, Ricky T. Q.", "Rubanova, Yulia", "Bettencourt, Jesse", "Duvenaud, David"),
        ("booktitle", "Advances in Neural Information Processing Systems"),
        2018,
    ),
    Paper(
        "dupont2019",
        "inproceedings",
        "Augmented Neural {ODEs}",
        ("Dupont, Emilien", "Doucet, Arnaud", "Teh, Yee Whye"),
        ("booktitle", "Advances in Neural Information Processing Systems"),
        2019,
    ),
    Paper(
        "ruthotto2020survey",
        "misc",
        "Deep Learning and Partial Differential Equations",
        ("Ruthotto, Lars",),
        ("howpublished", "Slides, SIAM/CAIMS Annual Meeting"),
        2020,
    ),
    Paper(
        "ruthotto2020mfg",
        "article",
        "A Machine Learning Framework for Solving High-Dimensional Mean Field Game and Mean Field Control Problems",
        ("Ruthotto, Lars", "Osher, Stanley J.", "Li, Wuchen", "Nurbekyan, Levon", "Wu Fung, Samy"),
        ("journal", "Proceedings of the National Academy of Sciences"),
        2020,
        {"volume": "117", "number": "17", "pages": "9183--9193"},
    ),
    Paper(
        "onken2021",
        "inproceedings",
        "{OT-Flow}: Fast and Accurate Continuous Normalizing Flows via Optimal Transport",
        ("Onken, Derek", "Wu Fung, Samy", "Li, Xingjian", "Ruthotto, Lars"),
        ("booktitle", "AAAI Conference on Artificial Intelligence"),
        2021,
    ),
    Paper(
        "lipman2023",
        "inproceedings",
        "Flow Matching for Generative Modeling",
        ("Lipman, Yaron", "Chen, Ricky T. Q.", "Ben-Hamu, Heli", "Nickel, Maximilian", "Le, Matt"),
        ("booktitle", "International Conference on Learning Representations"),
        2023,
    ),
    Paper(
        "gholami2019",
        "inproceedings",
        "{ANODE}: Unconditionally Accurate Memory-Efficient Gradients for Neural {ODEs}",
        ("Gholami, Amir", "Keutzer, Kurt", "Biros, George"),
        ("booktitle", "International Joint Conference on Artificial Intelligence"),
        2019,
    ),
    Paper(
        "chang2018multilevel",
        "inproceedings",
        "Multi-level Residual Networks from Dynamical Systems View",
        ("Chang, Bo", "Meng, Lili", "Haber, Eldad", "Tung, Frederick", "Begert, David"),
        ("booktitle", "International Conference on Learning Representations"),
        2018,
    ),
    Paper(
        "guenther2020",
        "article",
        "Layer-Parallel Training of Deep Residual Neural Networks",
        ("Günther, Stefanie", "Ruthotto, Lars", "Schroder, Jacob B.", "Cyr, Eric C.", "Gauger, Nicolas R."),
        ("journal", "SIAM Journal on Mathematics of Data Science"),
        2020,
        {"volume": "2", "number": "1", "pages": "1--23"},
    ),
    Paper(
        "raissi2019",
        "article",
        "Physics-informed neural networks: A deep learning framework for solving forward and inverse problems "
        "involving nonlinear partial differential equations",
        ("Raissi, Maziar", "Perdikaris, Paris", "Karniadakis, George E."),
        ("journal", "Journal of Computational Physics"),
        2019,
        {"volume": "378", "pages": "686--707"},
    ),
    Paper(
        "wang2024",
        "article",
        "Diffusion Mechanism in Residual Neural Network: Theory and Applications",
        ("Wang, Tangjun", "Dou, Zehao", "Bao, Chenglong", "Shi, Zuoqiang"),
        ("journal", "IEEE Transactions on Pattern Analysis and Machine Intelligence"),
        2024,
        {"volume": "46", "number": "2", "eprint": "2105.03155", "archiveprefix": "arXiv"},
    ),
    Paper(
        "kipf2017",
        "inproceedings",
        "Semi-Supervised Classification with Graph Convolutional Networks",
        ("Kipf, Thomas N.", "Welling, Max"),
        ("booktitle", "International Conference on Learning Representations"),
        2017,
    ),
    Paper(
        "hamilton2017",
        "inproceedings",
        "Inductive Representation Learning on Large Graphs",
        ("Hamilton, William L.", "Ying, Rex", "Leskovec, Jure"),
        ("booktitle", "Advances in Neural Information Processing Systems"),
        2017,
    ),
    Paper(
        "sirignano2018",
        "article",
        "DGM: A deep learning algorithm for solving partial differential equations",
        ("Sirignano, Justin", "Spiliopoulos, Konstantinos"),
        ("journal", "Journal of Computational Physics"),
        2018,
        {"volume": "375", "pages": "1339--1364"},
    ),
    Paper(
        "velickovic2018",
        "inproceedings",
        "Graph Attention Networks",
        (
            "Veličković, Petar",
            "Cucurull, Guillem",
            "Casanova, Arantxa",
            "Romero, Adriana",
            "Liò, Pietro",
            "Bengio, Yoshua",
        ),
        ("booktitle", "International Conference on Learning Representations"),
        2018,
    ),
    Paper(
        "gasteiger2019",
        "inproceedings",
        "Predict then Propagate: Graph Neural Networks meet Personalized {PageRank}",
        ("Gasteiger, Johannes", "Bojchevski, Aleksandar", "Günnemann, Stephan"),
        ("booktitle", "International Conference on Learning Representations"),
        2019,
    ),
    Paper(
        "yang2016",
        "inproceedings",
        "Revisiting Semi-Supervised Learning with Graph Embeddings",
        ("Yang, Zhilin", "Cohen, William W.", "Salakhutdinov, Ruslan"),
        ("booktitle", "International Conference on Machine Learning"),
        2016,
    ),
    Paper(
        "he2022epdo",
        "inproceedings",
        "Neural {ePDOs}: Spatially Adaptive Equivariant Partial Differential Operator Based Networks",
        ("He, Lingshen", "Chen, Yuxuan", "Shen, Zhengyang", "Yang, Yibo", "Lin, Zhouchen"),
        ("booktitle", "International Conference on Learning Representations"),
        2023,
    ),
    Paper(
        "jenner2022",
        "inproceedings",
        "Steerable Partial Differential Operators for Equivariant Neural Networks",
        ("Jenner, Erik", "Weiler, Maurice"),
        ("booktitle", "International Conference on Learning Representations"),
        2022,
    ),
    Paper(
        "weiler2019",
        "inproceedings",
        "General {E(2)}-Equivariant Steerable {CNNs}",
        ("Weiler, Maurice", "Cesa, Gabriele"),
        ("booktitle", "Advances in Neural Information Processing Systems"),
        2019,
    ),
    Paper(
        "cohen2016",
        "inproceedings",
        "Group Equivariant Convolutional Networks",
        ("Cohen, Taco S.", "Welling, Max"),
        ("booktitle", "International Conference on Machine Learning"),
        2016,
    ),
    Paper(
        "li2021",
        "inproceedings",
        "Involution: Inverting the Inherence of Convolution for Visual Recognition",
        (
            "Li, Duo",
            "Hu, Jie",
            "Wang, Changhu",
            "Li, Xiangtai",
            "She, Qi",
            "Zhu, Lei",
            "Zhang, Tong",
            "Chen, Qifeng",
        ),
        ("booktitle", "IEEE/CVF Conference on Computer Vision and Pattern Recognition"),
        2021,
    ),
    Paper(
        "kim2022",
        "misc",
        "Regularizing Image Classification Neural Networks with Partial Differential Equations",
        ("Kim, Jungeun", "Hwang, Seunghyun", "Hwang, Jeehyun", "Lee, Kookjin", "Lee, Dongeun", "Park, Noseong"),
        ("howpublished", "OpenReview, submitted to the International Conference on Learning Representations"),
        2022,
        {"url": "https://openreview.net/forum?id=vMWl7Ta1ymW"},
    ),
    Paper(
        "sandler2019",
        "inproceedings",
        "Non-Discriminative Data or Weak Model? On the Relative Importance of Data and Model Resolution",
        ("Sandler, Mark", "Baccash, Jonathan", "Zhmoginov, Andrey", "Howard, Andrew"),
        ("booktitle", "IEEE/CVF International Conference on Computer Vision Workshops"),
        2019,
    ),
    Paper(
        "howard2019",
        "inproceedings",
        "Searching for {MobileNetV3}",
        (
            "Howard, Andrew",
            "Sandler, Mark",
            "Chu, Grace",
            "Chen, Liang-Chieh",
            "Chen, Bo",
            "Tan, Mingxing",
            "Wang, Weijun",
            "Zhu, Yukun",
            "Pang, Ruoming",
            "Vasudevan, Vijay",
            "Le, Quoc V.",
            "Adam, Hartwig",
        ),
        ("booktitle", "IEEE/CVF International Conference on Computer Vision"),
        2019,
    ),
):
    PAPERS.add(_paper.key, _paper)
