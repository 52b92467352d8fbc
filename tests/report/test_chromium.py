"""The report in a real browser: no complaint, no request, no sideways scrolling."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from evolvent.report import report_html, write_report

BROWSER = shutil.which("chromium")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium on PATH")
OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--enable-logging=stderr",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # the browser's own services stay at home
]


def browse(url: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(BROWSER), *OPTIONS, f"--user-data-dir={folder / 'profile'}", *options, url]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def requested(log: Path) -> set[str]:
    """Every URL that a page asked for, by the browser's network log; its own services have no origin as initiator."""
    started = [event.get("params", {}) for event in json.loads(log.read_text())["events"]]
    started = [params for params in started if "url" in params and "initiator" in params]
    return {params["url"] for params in started if params["initiator"] != "not an origin" or _from_file(params)}


def _from_file(params: dict) -> bool:
    return "file:" in params.get("network_isolation_key", "")


@pytest.fixture
def page(grid, equation, streets, write_grid, make_recipe, tmp_path) -> Path:
    names = ["aeroplane", "automobile", "a very long name of a class indeed"]
    other = write_grid(make_recipe("colours", seeds=[0]), "b2", classes=names, channels=3, size=32)
    return write_report([grid, other, equation, streets], tmp_path / "report.html")


def test_browser_finds_nothing_to_complain_about_or_to_fetch(page, tmp_path):
    log = tmp_path / "net.json"
    seen = browse(page.as_uri(), tmp_path, f"--log-net-log={log}", "--dump-dom")
    assert "Features through time" in seen.stdout
    assert "CONSOLE" not in seen.stderr
    assert requested(log) <= {page.as_uri()}


def test_a_request_would_be_noticed(page, tmp_path):
    leaking = tmp_path / "leaking.html"
    policy = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
    leak = '<img alt="" src="http://127.0.0.1:9/leak.png">'
    leaking.write_text(policy.sub("", page.read_text()).replace("<footer>", leak + "<footer>"))
    browse(leaking.as_uri(), tmp_path, f"--log-net-log={tmp_path / 'net.json'}", "--dump-dom")
    assert "http://127.0.0.1:9/leak.png" in requested(tmp_path / "net.json")


def test_policy_stops_a_request(page, tmp_path):
    leaking = tmp_path / "leaking.html"
    leaking.write_text(page.read_text().replace("<footer>", '<img alt="" src="http://127.0.0.1:9/leak.png"><footer>'))
    seen = browse(leaking.as_uri(), tmp_path, f"--log-net-log={tmp_path / 'net.json'}", "--dump-dom")
    assert "CONSOLE" in seen.stderr
    assert "http://127.0.0.1:9/leak.png" not in requested(tmp_path / "net.json")


@pytest.mark.parametrize("width", [320, 380, 1200])
def test_page_never_scrolls_sideways(page, hostile, tmp_path, width):
    """Measured in a frame of that width, from which the policy is taken so that a script may look."""
    frames = "".join(_frame(report, width) for report in (page.read_text(), report_html([hostile])))
    script = (
        '<script>onload=()=>{document.body.textContent="EXCESS "+[...document.querySelectorAll("iframe")]'
        '.map(f=>f.contentDocument.documentElement).map(d=>d.scrollWidth-d.clientWidth).join(" ")+" END"}</script>'
    )
    outer = tmp_path / "outer.html"
    outer.write_text(f"<!DOCTYPE html><meta charset=utf-8><body>{frames}{script}")
    seen = browse(outer.as_uri(), tmp_path, "--dump-dom")
    found = re.search(r"EXCESS ([\d ]+) END", seen.stdout)
    assert found, seen.stderr
    assert [int(number) for number in found[1].split()] == [0, 0]


def _frame(report: str, width: int) -> str:
    body = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", report)
    body = body.replace("<details>", "<details open>")
    return f'<iframe style="border:0" width="{width}" height="900" srcdoc="{html.escape(body)}"></iframe>'
