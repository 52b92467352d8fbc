"""Every Python block of README, CONTRIBUTING and docs runs, page by page, and every recipe shown is valid."""

from __future__ import annotations

import yaml

from evolvent.experiments.recipe import Recipe


def test_python_blocks_of_a_page_run_in_order(code_page, tmp_path, run_script):
    lines = [""] * len(code_page.text.splitlines())  # blank between blocks, so that a traceback has the page's lines
    for block in code_page.blocks("python"):
        code = block.text.splitlines()
        lines[block.first_line - 1 : block.first_line - 1 + len(code)] = code
    script = tmp_path / f"{code_page.path.stem.replace('-', '_')}_page.py"
    script.write_text("\n".join(lines) + "\n", encoding="utf-8")
    run_script(script)


def test_recipes_that_pages_show_are_valid(page):
    for block in page.blocks("yaml"):
        assert Recipe.read({"name": "shown", **yaml.safe_load(block.text)}, page.name).cells()
