"""Sphinx configuration: MyST pages, the API from docstrings, a gallery from ../examples/gallery."""

import sys
import warnings
from pathlib import Path

import evolvent

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "Evolvent"
author = "The Evolvent authors"
copyright = "2026, the Evolvent authors"
version = release = evolvent.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # MathJax from the build itself, so that equations show without internet
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "tables_from_code",
]
exclude_patterns = ["_build", "_ext", "sg_execution_times.rst", "gallery/sg_execution_times.rst"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

autodoc_inherit_docstrings = False  # those of Lightning and PyTorch are not ours
napoleon_use_ivar = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 88

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 3600,
    "remove_config_comments": True,
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

html_theme = "furo"
html_title = f"Evolvent {release}"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
