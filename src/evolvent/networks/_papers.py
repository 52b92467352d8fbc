"""The papers that networks and recipes come from, as BibTeX."""

from __future__ import annotations

from evolvent._core.registry import Registry

PAPERS: Registry[str] = Registry("paper", "`evolvent cite` takes a network, a recipe or one of these keys.")

for _key, _entry in {
    "bohn2021": """@techreport{bohn2021,
  title       = {Deep Neural Networks and {PIDE} Discretizations},
  author      = {Bohn, Bastian and Griebel, Michael and Kannan, Dinesh},
  institution = {Institut f{\\"u}r Numerische Simulation, Universit{\\"a}t Bonn},
  number      = {INS Preprint 2102},
  year        = {2021}
}""",
    "chang2018": """@inproceedings{chang2018,
  title     = {Reversible Architectures for Arbitrarily Deep Residual Neural Networks},
  author    = {Chang, Bo and Meng, Lili and Haber, Eldad and Ruthotto, Lars and Begert, David and Holtham, Elliot},
  booktitle = {AAAI Conference on Artificial Intelligence},
  year      = {2018}
}""",
    "haber2017": """@article{haber2017,
  title   = {Stable Architectures for Deep Neural Networks},
  author  = {Haber, Eldad and Ruthotto, Lars},
  journal = {Inverse Problems},
  volume  = {34},
  number  = {1},
  year    = {2017}
}""",
    "ruthotto2020": """@article{ruthotto2020,
  title   = {Deep Neural Networks Motivated by Partial Differential Equations},
  author  = {Ruthotto, Lars and Haber, Eldad},
  journal = {Journal of Mathematical Imaging and Vision},
  volume  = {62},
  pages   = {352--364},
  year    = {2020}
}""",
    "he2016deep": """@inproceedings{he2016deep,
  title     = {Deep Residual Learning for Image Recognition},
  author    = {He, Kaiming and Zhang, Xiangyu and Ren, Shaoqing and Sun, Jian},
  booktitle = {IEEE Conference on Computer Vision and Pattern Recognition},
  year      = {2016}
}""",
    "he2016identity": """@inproceedings{he2016identity,
  title     = {Identity Mappings in Deep Residual Networks},
  author    = {He, Kaiming and Zhang, Xiangyu and Ren, Shaoqing and Sun, Jian},
  booktitle = {European Conference on Computer Vision},
  year      = {2016}
}""",
}.items():
    PAPERS.add(_key, _entry)
