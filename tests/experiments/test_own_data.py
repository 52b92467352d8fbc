"""Trainings on the user's own data, from a recipe and from Python: found again, changes noticed, asked about files."""

import csv
import shutil
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from typer.testing import CliRunner

import evolvent as ev
from evolvent import cli
from evolvent.data import OwnDataWarning, from_arrays, from_csv, from_folder, load
from evolvent.errors import ConfigError, DataError, ModelFileError, ShapeError, StorageError, UnknownNameError
from evolvent.experiments import evaluate_run, load_recipe, read_record
from evolvent.experiments.recipe import Cell, overlay
from evolvent.tasks.prediction import MaskPredictions, PointPredictor

TINY = "model={name: hamiltonian, options: {channels: [4], blocks: 1, step_size: 0.4}}"


def answer(*arguments: str) -> str:
    done = CliRunner().invoke(cli.app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def write_classes(folder, draw, count=16, shape=(10, 14)):
    """Dark and bright images, of three classes."""
    for label, name in enumerate(("dark", "grey", "light")):
        for k in range(count):
            pixels = np.clip(draw.normal(40 + 80 * label, 12, shape), 0, 255).astype(np.uint8)
            path = folder / name / f"{k}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder of images, and a run on it that was started by a relative path."""
    root = tmp_path_factory.mktemp("own")
    write_classes(root / "pictures", np.random.default_rng(0))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        text = answer(
            "run", "own-images", "--out", "run", "--set", "data.folder=pictures", "--set", "data.test=0.25",
            "--set", "data.augment={}", "--set", "training.epochs=12", "--set", TINY,
        )  # fmt: skip
    assert "25% of them drawn for testing" in text
    return root


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained / "run", tmp_path / "run")


def test_the_run_records_path_and_fingerprint(trained):
    record = read_record(trained / "run")
    assert record.cell.data.folder == str(trained / "pictures")
    assert record.environment["data"]["fingerprint"] == from_folder(trained / "pictures", test=0.25).fingerprint
    assert record.result.figures["accuracy"] > 0.9
    assert read_record(str(trained / "run")).cell == record.cell
    assert evaluate_run(str(trained / "run"))[2].figures == record.result.figures
    for asked in (read_record, evaluate_run):
        with pytest.raises(ConfigError, match="takes the path of a folder, got None"):
            asked(None)


def test_evaluate_and_analyze_find_the_data_again_from_anywhere(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "light" in answer("evaluate", "run")
    assert "hamiltonian-seed0" in answer("analyze", "run", "cost")


def test_changed_and_missing_data_are_noticed(run, trained, tmp_path):
    moved = shutil.copytree(trained / "pictures", tmp_path / "moved")
    config = run / "config.yaml"
    text = config.read_text().replace(str(trained / "pictures"), str(tmp_path / "gone"))
    config.write_text("\n".join(line for line in text.splitlines() if not line.startswith("sha256")) + "\n")
    with pytest.raises(DataError, match=r"not at .*gone any more. Put them back, or say where they are with --data"):
        answer("evaluate", str(run))
    assert "warning" not in answer("evaluate", str(run), "--data", str(moved))
    Image.fromarray(np.zeros((10, 14), np.uint8)).save(moved / "dark" / "0.png")
    assert "moved has changed since the training" in answer("evaluate", str(run), "--data", str(moved))


def test_a_training_is_not_continued_on_other_data(trained, tmp_path):
    pictures = shutil.copytree(trained / "pictures", tmp_path / "pictures")
    settings = {"model": {"name": "hamiltonian", "options": {"channels": [4], "blocks": 1}}, "training.epochs": 1,
                "data.batch_size": 12}  # fmt: skip
    data, out = from_folder(pictures), tmp_path / "run"
    ev.train("own-images", data, settings=settings, out=out)
    (out / "result.json").unlink()  # as if it had been interrupted
    Image.fromarray(np.zeros((10, 14), np.uint8)).save(pictures / "dark" / "0.png")
    with pytest.raises(DataError, match=r"pictures has changed since the training in .* began"):
        ev.train("own-images", data, settings=settings, out=out, resume=True)


def test_prediction_of_files_agrees_with_python(trained, tmp_path):
    run, files = trained / "run", trained / "pictures" / "light"
    text = answer(
        "predict", str(run), str(files), str(trained / "pictures/dark/0.png"), "--csv", str(tmp_path / "a.csv")
    )
    assert "confidence" in text
    with (tmp_path / "a.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["class"] for row in rows] == ["light"] * 16 + ["dark"]
    predictor = ev.load_predictor(run)
    assert predictor.classes == ("dark", "grey", "light")
    found = predictor([row["input"] for row in rows])
    assert found.labels == [row["class"] for row in rows]
    assert found.confidence == pytest.approx([float(row["confidence"]) for row in rows], abs=1e-6)
    pixels = np.stack([np.array(Image.open(row["input"])) for row in rows])
    torch.testing.assert_close(predictor(pixels).probabilities, found.probabilities)
    assert predictor(rows[0]["input"]).labels == ["light"]
    assert predictor(files).inputs == [row["input"] for row in rows[:-1]]


def test_hidden_files_of_a_folder_are_not_asked_about(trained, tmp_path):
    shutil.copy(trained / "pictures/dark/0.png", tmp_path / "a.png")
    (tmp_path / "._a.png").write_bytes(b"as macOS leaves them")
    (tmp_path / "folder.png").mkdir()
    for hidden in (".ipynb_checkpoints", "__MACOSX"):
        (tmp_path / hidden).mkdir()
        shutil.copy(tmp_path / "a.png", tmp_path / hidden)
    assert ev.load_predictor(trained / "run")(tmp_path).inputs == [str(tmp_path / "a.png")]


def test_links_to_folders_are_followed_but_not_in_circles(trained, tmp_path):
    folder = tmp_path / "links"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / name).symlink_to(trained / "pictures/dark")
    (folder / "up").symlink_to(tmp_path)
    (folder / "gone").symlink_to(tmp_path / "nowhere")
    found = ev.load_predictor(trained / "run")(folder)
    assert found.inputs == [str(folder / name) for name in sorted(f"{a}/{k}.png" for a in "ab" for k in range(16))]


def test_answers_do_not_replace_what_was_asked(flowers, trained, tmp_path):
    run, tables = str(flowers / "run"), tmp_path / "tables"
    tables.mkdir()
    new = write_table(tables / "new.csv", "len,wid", *ROWS)
    (tmp_path / "link.csv").hardlink_to(new)
    for target in (new, tmp_path / "link.csv"):
        with pytest.raises(ConfigError, match="one of the files asked about"):
            answer("predict", run, str(tables), "--csv", str(target))
    assert new.read_text().splitlines() == ["len,wid", *ROWS]
    for _ in range(2):
        assert "predicting 2" not in answer("predict", run, str(tables), "--csv", str(tables / "answers.csv"))
        assert len((tables / "answers.csv").read_text().splitlines()) == 3
    picture = shutil.copy(trained / "pictures/dark/0.png", tmp_path / "a.png")
    with pytest.raises(ConfigError, match="one of the files asked about"):
        answer("predict", str(trained / "run"), str(picture), "--csv", str(picture))


def test_files_of_other_sizes_and_colours_are_converted(trained, tmp_path):
    path = tmp_path / "large.jpg"
    Image.fromarray(np.full((60, 50, 3), 200, np.uint8)).save(path)
    assert ev.load_predictor(trained / "run")(path).labels == ["light"]


def test_predictions_refuse_what_they_cannot_take(trained, tmp_path):
    predictor = ev.load_predictor(trained / "run")
    with pytest.raises(ShapeError, match=r"of shape \(1, 10, 14\), got an array of shape \(2, 10, 10\)"):
        predictor(np.zeros((2, 10, 10), np.uint8))
    with pytest.raises(ShapeError, match=r"array of shape \(10, 14, 1\), read as 10 images. .* as image\[None\]"):
        predictor(np.zeros((10, 14, 1), np.uint8))
    with pytest.raises(DataError, match=r"there is no image .*none\.png"):
        predictor("none.png")
    with pytest.raises(ConfigError, match="there are no images to predict"):
        predictor([])
    for one in (None, 5, Image.new("L", (14, 10))):
        with pytest.raises(ConfigError, match="takes paths of files, or images as an array, got"):
            predictor(one)
    with pytest.raises(ConfigError, match=r"ev\.load_predictor takes the path of a folder, got None"):
        ev.load_predictor(None)
    Image.fromarray(np.full((10, 14), 40_000, np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(DataError, match=r"deep\.png has more than 8 bits a channel"):
        predictor(tmp_path / "deep.png")
    with pytest.raises(ConfigError, match="--out is for the masks"):
        answer("predict", str(trained / "run"), str(trained / "pictures/dark"), "--out", str(tmp_path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty has no \.jpg or"):
        answer("predict", str(trained / "run"), str(tmp_path / "empty"))


def test_a_model_is_loaded_from_its_run(trained, run):
    model = ev.load(trained / "run")
    torch.testing.assert_close(model.state_dict(), ev.load(trained / "run" / "model").state_dict())
    for name in ("a", "b"):
        shutil.copytree(run / "model", run / "grid" / "cells" / name / "model")
    with pytest.raises(
        ModelFileError, match=r"has 2 trained networks. Give the folder of one of them: cells/a, cells/b"
    ):
        ev.load(run / "grid")
    shutil.rmtree(run / "grid" / "cells" / "b")
    assert ev.load_predictor(run / "grid").classes[0] == "dark"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "has no predictor.json"),
        ("{", "not valid JSON"),
        ("[1]", "not a mapping"),
        ("[" * 100_000, "not valid JSON"),
        ('{"format": 0}', "another version"),
        ('{"format": 1}', "does not say"),
    ],
)
def test_a_damaged_description_is_named(run, text, message):
    path = run / "model" / "predictor.json"
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(ModelFileError, match=message):
        ev.load_predictor(run)


def test_a_description_whose_classes_were_changed_is_refused(run):
    path = run / "model" / "predictor.json"
    path.write_text(path.read_text().replace("light", "lighu"))
    with pytest.raises(ModelFileError, match=r"predictor.json is damaged.* line 'sha256' as well. Or train the"):
        ev.load_predictor(run)


def test_arrays_are_stored_beside_the_run(tmp_path):
    draw, labels = np.random.default_rng(0), np.arange(60) % 2
    x = np.clip(draw.normal(60, 10, (60, 4, 8, 6)) + 100 * labels[:, None, None, None], 0, 255).astype(np.uint8)
    network = ev.create_model("hamiltonian", channels=(4,), blocks=1, step_size=0.4)
    run = ev.train(network, from_arrays(x, labels), settings={"training.epochs": 4}, out=tmp_path / "run")
    assert (tmp_path / "run" / "data.npz").is_file()
    assert run.figures["accuracy"] > 0.9
    assert run.predictor()(x[:4]).labels == ["0", "1", "0", "1"]
    assert "accuracy" in answer("evaluate", str(run.folder))


def test_arrays_beside_a_run_move_with_it(tmp_path, monkeypatch):
    x, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    settings = {"training.epochs": 1, "model.options.layers": 2, "seeds": [0, 1]}
    ev.train("point_resnet", from_arrays(x, y), settings=settings, out=tmp_path / "run")
    (tmp_path / "run").rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    assert "accuracy" in answer("evaluate", "moved")
    assert "accuracy" in answer("evaluate", str(next((tmp_path / "moved" / "cells").iterdir())))
    ev.train("point_resnet", from_arrays(x + 1, y), settings=settings, out=tmp_path / "run")
    assert "warning" not in answer("evaluate", "moved")  # it does not take the arrays of the new run


SMALL = {"training.epochs": 1, "model.options.channels": [4], "model.options.blocks": 1}


def two_classes(count=40, shape=(8, 6), seed=0):
    x = np.random.default_rng(seed).integers(0, 255, (count, *shape)).astype(np.uint8)
    return x, np.arange(count) % 2


def test_nothing_is_written_over_by_a_run_that_is_refused(tmp_path):
    (x, y), out = two_classes(), tmp_path / "run"
    figures = ev.train("hamiltonian", from_arrays(x, y), settings=SMALL, out=out).figures
    kept = (out / "data.npz").read_bytes()
    with pytest.raises(ConfigError, match="holds a run already"):
        ev.train("hamiltonian", from_arrays(255 - x, y), settings=SMALL, out=out)
    with pytest.raises(ConfigError, match=r"data\.npz is there already and holds something else"):
        ev.train("hamiltonian", from_arrays(255 - x, y), settings=SMALL, out=out, resume=True)
    assert (out / "data.npz").read_bytes() == kept
    assert ev.train("hamiltonian", from_arrays(x, y), settings=SMALL, out=out, resume=True).figures == figures
    with pytest.raises(ConfigError, match=r"optimizer\.lr"):
        ev.train("hamiltonian", from_arrays(x, y), settings={**SMALL, "optimizer.lr": -1}, out=tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("content", [{"x": np.zeros((4, 8, 6), np.uint8), "y": [0, 1, 0, 1], "notes": "a"}, {}])
def test_an_archive_of_ones_own_is_not_replaced(tmp_path, content):
    np.savez(tmp_path / "data.npz", **content)
    kept = (tmp_path / "data.npz").read_bytes()
    with pytest.raises(ConfigError, match=r"something else than these data.*move the file away"):
        ev.train("hamiltonian", from_arrays(*two_classes()), settings=SMALL, out=tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"data.npz": kept}


def test_a_training_with_tuples_and_arrays_is_continued(tmp_path):
    data, network = from_arrays(*two_classes()), ev.create_model("hamiltonian", channels=(4,), blocks=1)
    settings = {"training.epochs": np.int64(1), "optimizer.name": "AdamW", "optimizer.options.betas": (0.9, 0.99)}
    figures = ev.train(network, data, settings=settings, out=tmp_path / "run").figures
    (tmp_path / "run").rename(tmp_path / "moved")
    again = {**settings, "model.options.channels": np.array([4])}
    for more in (settings, again):
        assert ev.train(network, data, settings=more, out=tmp_path / "moved", resume=True).figures == figures
    (tmp_path / "moved" / "result.json").unlink()  # as if it had been interrupted
    assert ev.train(network, data, settings=settings, out=tmp_path / "moved", resume=True).figures == figures
    with pytest.raises(ConfigError, match=r"settings and options are numbers, words, lists .* for a set"):
        ev.train(network, data, settings={"model.options.channels": {4}}, out=tmp_path / "set")


def test_axes_of_arrays_are_kept_in_the_run(tmp_path):
    data = from_arrays(*two_classes(shape=(20, 4, 5)))
    run = ev.train("hamiltonian", data, settings=SMALL, out=tmp_path / "run")
    assert run.predictor().input_shape == data.train.shape
    assert "accuracy" in answer("evaluate", str(run.folder))


def test_a_wrong_path_of_a_first_run_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for recipe, key in (("own-images", "folder"), ("own-images", "npz"), ("spirals", "csv")):
        with pytest.raises(DataError, match=rf"there is no file or folder .*nope. Give .*: --set data.{key}=PATH"):
            answer("run", recipe, "--set", f"data.{key}=nope")


@pytest.mark.parametrize("ask", [ev.load, ev.load_predictor, lambda run: answer("export", run)])
def test_a_run_folder_that_is_not_there_is_named(ask):
    with pytest.raises(ModelFileError, match=r"there is no folder nope. Give the folder of a run"):
        ask("nope")


def test_two_origins_of_the_data_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"name the data 2 times: data.folder=a and data.npz=b. Give one"):
        load_recipe("own-images", ["data.folder=a", "data.npz=b"])
    with pytest.raises(ConfigError, match=r"data.name=digits and data.folder=a"):
        load_recipe("own-images", ["data=digits", "data.folder=a"])
    with pytest.raises(ConfigError, match=r"data.folder=a and data.npz=b"):
        load_recipe("own-images", ["data={folder: a}", "data.npz=b"])
    assert load_recipe("demo", ["data.name=null", "data.folder=a"]).cells()[0].data.folder
    data = from_arrays(np.zeros((10, 4, 4), np.uint8), np.arange(10) % 2)
    with pytest.raises(ConfigError, match=r"data.folder=a and data.npz=arrays"):
        ev.train("own-images", data, settings={"data.folder": "a"}, out=tmp_path / "run")


def test_a_fraction_that_keeps_no_image_is_named(trained, tmp_path):
    settings = {"data.fraction": 0.0001}
    with pytest.raises(ConfigError, match=r"data.fraction of 0.0001 keeps none of 38 training images"):
        ev.train("own-images", from_folder(trained / "pictures"), settings=settings, out=tmp_path / "run")


def test_the_check_of_own_data_counts_and_names(trained, tmp_path):
    save = tmp_path / "a.npz"
    np.savez(save, x=np.zeros((2, 4, 4), np.uint8), y=[0, 1], x_test=np.zeros((1, 4, 4), np.uint8), y_test=[1])
    text = answer("data", "check", str(save))
    assert "train: 2 images" in text
    assert "test: 1 image," in text
    with pytest.raises(UnknownNameError, match=r"unknown data set 'nowhere'. There is no file or folder of this name"):
        answer("data", "check", "nowhere")


def test_a_known_set_or_a_recipe_is_trained_by_the_same_call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = {"training.epochs": 1, "data.fraction": 0.1, "model.options": {"channels": [4], "blocks": 1}}
    run = ev.train("resnet", load("digits"), settings=settings, seed=3)
    assert run.folder.parts[0] == "runs"
    assert read_record(run.folder).cell.data.name == "digits"
    assert list(run.results) == ["resnet-seed3"]
    both = ev.train("spirals", settings={"training.epochs": 1, "data.points": 20, "seeds": [0, 1]}, out=tmp_path / "s")
    with pytest.raises(ConfigError, match="trainings; look at results"):
        _ = both.figures


def test_what_cannot_be_trained_is_said():
    data = from_arrays(np.zeros((10, 4, 4), np.uint8), np.arange(10) % 2)
    with pytest.raises(UnknownNameError, match=r"unknown network or recipe 'resnt'. Did you mean 'resnet'"):
        ev.train("resnt", data)
    for other in (5, "folder"):
        with pytest.raises(ConfigError, match=r"data are made by ev\.data\.from_folder"):
            ev.train("resnet", other)
    with pytest.raises(ConfigError, match="out takes the path of a folder, got 5"):
        ev.train("resnet", data, out=5)
    with pytest.raises(StorageError, match="a part of its path is one"):
        ev.train("resnet", data, out=__file__)
    with pytest.raises(ConfigError, match=r"made by ev.create_model"):
        ev.train(nn.Linear(2, 2), data)
    with pytest.raises(ConfigError, match="say what resnet is trained on"):
        ev.train("resnet")
    with pytest.raises(ConfigError, match="is a study"):
        ev.train("pide-decay")
    for settings in ("training.epochs=1", {5: 1}):
        with pytest.raises(ConfigError, match="settings are changes by dotted keys"):
            ev.train("demo", settings=settings)


@pytest.fixture(scope="module")
def flowers(tmp_path_factory):
    """A run on a table with the columns len and wid, of which the first decides."""
    root, x = tmp_path_factory.mktemp("flowers"), np.random.default_rng(0).normal((10, -10), size=(60, 2))
    rows = [f"{a},{b},{'long' if a > 10 else 'short'}" for a, b in x.tolist()]
    (root / "train.csv").write_text("\n".join(["len,wid,kind", *rows]))
    settings = {"training.epochs": 12, "model.options.layers": 3}
    ev.train("point_resnet", from_csv(root / "train.csv"), settings=settings, out=root / "run")
    return root


def write_table(path, head, *rows):
    path.write_text("\n".join([*([head] if head else []), *rows]))
    return path


def test_columns_are_found_by_their_names_in_any_order(flowers, tmp_path):
    predictor = ev.load_predictor(flowers / "run")
    named = write_table(tmp_path / "named.csv", "wid,id,len", "-10,1,12.5", "-10,2,7.5")
    assert predictor(named).labels == ["long", "short"]
    torch.testing.assert_close(predictor(named).probabilities, predictor([[12.5, -10], [7.5, -10]]).probabilities)
    numbered = PointPredictor(predictor.network, replace(predictor.form, columns=("0", "1")))
    for head in ("0,1", ",0,1,kind"):
        rows = [",".join(["5"] * head.startswith(",") + [row] + ["x"] * head.endswith("d")) for row in ROWS]
        assert numbered(write_table(tmp_path / "numbered.csv", head, *rows)).labels == ["long", "short"]
    plain = write_table(tmp_path / "plain.csv", None, "12.5,-10", "7.5,-10")
    torch.testing.assert_close(predictor(plain).probabilities, predictor(named).probabilities)


ROWS = ("12.5,-10", "7.5,-10")


def test_a_point_is_not_taken_for_the_names_of_the_columns(flowers, tmp_path):
    predictor = ev.load_predictor(flowers / "run")
    for first in ("1.0,NA", "NA,NA", "?,-10", "abc,-10"):
        with pytest.raises(DataError, match=r"line 1: '(NA|\?|abc)' in column 'x[01]' is not a finite number"):
            predictor(write_table(tmp_path / "gap.csv", None, first, *ROWS))
    numbered = PointPredictor(predictor.network, replace(predictor.form, columns=("0", "1")))
    with pytest.raises(DataError, match=r"line 1, 1,0, is a point, or .* in another order. Begin .* line 0,1, and"):
        numbered(write_table(tmp_path / "q.csv", None, "1,0", "0,1", "0.5,0.5"))
    with pytest.warns(OwnDataWarning, match="line 1, 0,1, is taken as the names of the columns"):
        assert len(numbered(write_table(tmp_path / "q.csv", None, "0,1", "1,0", "0.5,0.5")).labels) == 2
    assert len(numbered(write_table(tmp_path / "q.csv", None, "1.5,0", "1,0")).labels) == 2


def test_columns_of_other_names_are_refused_or_warned_of(flowers, tmp_path):
    run, predictor = flowers / "run", ev.load_predictor(flowers / "run")
    more = write_table(tmp_path / "more.csv", "id,length,width", "1,12.5,-10")
    with pytest.raises(DataError, match=r"columns len, wid, in any order.* it has 3: id, length, width. Rename them"):
        predictor(more)
    other = write_table(tmp_path / "other.csv", "length,width", "12.5,-10")
    with pytest.warns(UserWarning, match="columns length, width, which are taken in this order as len, wid") as warned:
        assert predictor([other, other]).labels == ["long"] * 2
    assert len(warned) == 1
    assert "warning: other.csv has the columns length, width" in answer("predict", str(run), str(other))


class Frame:
    """A table like those of pandas and polars: columns by their names, rows as an array."""

    def __init__(self, **columns):
        self.values = columns
        self.columns = list(columns)

    def __getitem__(self, names):
        return np.array([self.values[name] for name in names]).T


def test_columns_of_tables_in_memory_are_found_by_their_names(flowers):
    predictor = ev.load_predictor(flowers / "run")
    frame = Frame(wid=[-10.0, -10], kind=["x", "y"], len=[12.5, 7.5])
    torch.testing.assert_close(predictor(frame).probabilities, predictor([[12.5, -10], [7.5, -10]]).probabilities)
    assert predictor(Frame(wid=["-10"], len=["12.5"])).labels == ["long"]
    with pytest.warns(UserWarning, match="the table has the columns a, b, which are taken in this order as len, wid"):
        assert predictor(Frame(a=[12.5], b=[-10])).labels == ["long"]
    with pytest.raises(DataError, match=r"the table must have the columns len, wid.* it has 1: wid"):
        predictor(Frame(wid=[-10]))
    fixed = np.array([[12.5, -10]], ">f8")
    fixed.flags.writeable = False
    assert predictor(fixed).labels == predictor(fixed[:, ::-1][:, ::-1]).labels == ["long"]


@pytest.mark.parametrize("kind", [str, object])
def test_words_are_no_points(flowers, kind):
    with pytest.raises(DataError, match="points are rows of numbers, got 'b'"):
        ev.load_predictor(flowers / "run")(np.array([["1", "b"]], dtype=kind))


def test_numbers_that_are_not_finite_are_refused(flowers):
    predictor = ev.load_predictor(flowers / "run")
    for value in (float("nan"), float("inf")):
        with pytest.raises(DataError, match="row 1 of 2 has numbers that are not finite"):
            predictor([[12.5, -10], [1, value]])
    with pytest.raises(ConfigError, match="there are no points to predict"):
        predictor([])
    for one in (5, [5, 6]):
        with pytest.raises(ShapeError, match=r"takes points of 2 features \(len, wid\), got \((2,)?\)"):
            predictor(one)


def test_few_images_fill_one_batch(tmp_path):
    write_classes(tmp_path / "few", np.random.default_rng(0), count=5)
    text = answer("run", "own-images", "--set", f"data.folder={tmp_path / 'few'}", "--set", "training.epochs=2",
                  "--set", TINY, "--out", str(tmp_path / "run"))  # fmt: skip
    assert "12 images do not fill a batch of 16, so that each step takes all of them" in text
    assert read_record(tmp_path / "run").result.steps == 2


def test_images_that_batches_leave_out_are_warned_of(tmp_path):
    x, y = np.zeros((33, 4, 4), np.uint8), np.arange(33) % 2
    data = from_arrays(x[:26], y[:26], x[26:], y[26:])
    settings = {"training.epochs": 1, "model": {"name": "hamiltonian", "options": {"channels": [4], "blocks": 1}}}
    with pytest.warns(UserWarning, match=r"leave 10 of 26 images out of each epoch, .*batch_size=13 leaves out 0"):
        ev.train("own-images", data, settings=settings, out=tmp_path / "run")
    ev.train("own-images", data, settings=settings | {"data.batch_size": 13}, out=tmp_path / "fits")


def test_classes_without_training_rows_are_warned_of(tmp_path):
    draw = np.random.default_rng(0)
    for x in (draw.normal(size=(24, 2)), draw.integers(0, 256, (24, 6, 6)).astype(np.uint8)):
        np.savez(tmp_path / "a.npz", x=x[:20], y=np.arange(20) % 2, x_test=x[20:], y_test=[0, 1, 7, 9])
        said = "warning: 2 classes of the test part have no training rows and cannot be learned: 7, 9"
        assert said in answer("data", "check", str(tmp_path / "a.npz"))
        network = "model={name: point_resnet, options: {layers: 2}}" if x.ndim == 2 else TINY
        recipe, out = ("spirals", "points") if x.ndim == 2 else ("own-images", "images")
        text = answer("run", recipe, "--set", f"data.npz={tmp_path / 'a.npz'}", "--set", "training.epochs=1", "--set",
                      network, "--set", "seeds=[0]", "--set", "variants={}", "--out", str(tmp_path / out))  # fmt: skip
        assert said.removeprefix("warning: ") in text


def test_points_from_a_table(tmp_path):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(90, 5)) * [1, 1000, 1, 1, 0] + [0, 5000, 0, 0, 7]
    rows = [",".join([*map(str, row), "up" if row[1] > 5000 else "down"]) for row in x.tolist()]
    table = tmp_path / "points.csv"
    table.write_text("\n".join(["a,b,c,d,constant,side", *rows]))
    run = tmp_path / "run"
    settings = {"data.validation": 3, "training.epochs": 20, "model.options.layers": 4}
    ev.train("point_resnet", from_csv(table, test=0.3), settings=settings, out=run)
    record = read_record(run)
    assert record.result.figures["accuracy"] > 0.85
    assert record.environment["data"]["fingerprint"]
    text = answer("predict", str(run), str(table), "--csv", str(tmp_path / "answers.csv"))
    assert "and 50 more." in text
    assert "and 50 more; --csv FILE writes all." in answer("predict", str(run), str(table))
    predictor = ev.load_predictor(run)
    found = predictor(x[:20])
    assert (
        np.mean([label == ("up" if row[1] > 5000 else "down") for label, row in zip(found.labels, x, strict=False)])
        > 0.8
    )
    torch.testing.assert_close(predictor(table).probabilities[:20], found.probabilities, rtol=1e-4, atol=1e-5)
    with pytest.raises(ShapeError, match=r"points of 5 features \(a, b, c, d, constant\), got \(3, 2\)"):
        predictor(np.zeros((3, 2)))


def test_masks_are_predicted_as_large_as_the_image(tmp_path):
    draw = np.random.default_rng(0)
    for k in range(12):
        mask = np.zeros((8, 12), np.uint8)
        mask[draw.integers(2, 6) :] = 1
        for name, pixels in (
            ("images", np.clip(40 + 150 * mask + draw.normal(0, 9, mask.shape), 0, 255)),
            ("masks", mask),
        ):
            (tmp_path / "scenes" / name).mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "scenes" / name / f"{k}.png")
    (tmp_path / "scenes" / "classes.txt").write_text("sky\nground\n")
    data = from_folder(tmp_path / "scenes")
    network = ev.create_model("hamiltonian", channels=(4,), blocks=1, step_size=0.4, bias=True)
    run = ev.train(network, data, settings={"training.epochs": 30, "optimizer.lr": 0.03}, out=tmp_path / "run")
    assert run.figures["miou"] > 0.8
    path = tmp_path / "wide.png"
    Image.fromarray(np.repeat([[40], [190]], [16, 16], axis=0).repeat(24, axis=1).astype(np.uint8)).save(path)
    text = answer("predict", str(run.folder), str(path), "--out", str(tmp_path / "found"))
    assert "ground" in text
    mask = np.array(Image.open(tmp_path / "found" / "wide.png"))
    assert mask.shape == (32, 24)
    with pytest.raises(ConfigError, match=r"the mask .*wide.png would replace the image"):
        answer("predict", str(run.folder), str(path), "--out", str(tmp_path))
    with Image.open(path) as kept:
        assert kept.mode == "L"
    assert (mask == np.repeat([[0], [1]], [16, 16], axis=0)).mean() > 0.8
    with pytest.raises(ConfigError, match="two inputs would be written as"):
        run.predictor()([path, path]).save(tmp_path / "found")
    masks_need_no_memory_for_all_probabilities(run.predictor(), data.train.tensor)


def masks_need_no_memory_for_all_probabilities(predictor, images):
    ask, kept = predictor._probabilities, []

    def asked(some):
        assert sum(found() is not None for found in kept) <= 1
        found = ask(some)
        kept.append(weakref.ref(found))
        return found

    whole = predictor(images)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predictor, "_probabilities", asked)
        patch.setattr("evolvent.tasks.prediction.images._AT_ONCE", 2)
        found = predictor(images)
    assert len(kept) == -(-len(images) // 2)
    assert np.array_equal(found.masks, whole.masks)
    assert found.confidence == pytest.approx(whole.confidence, rel=1e-5)


def test_masks_replace_earlier_predictions_alone(tmp_path, monkeypatch):
    masks = tmp_path / "scenes" / "masks"
    masks.mkdir(parents=True)
    drawn = np.eye(4, dtype=np.uint8)
    for name in ("a.png", "b.png"):
        Image.fromarray(drawn).save(masks / name)
    found = MaskPredictions(["images/c.jpg", "images/a.jpg"], ("x", "y"), [drawn * 0] * 2, [0.5] * 2)
    with pytest.raises(ConfigError, match=r"a\.png would replace a file that is no prediction. Choose another folder"):
        found.save(masks)
    assert not (masks / "c.png").exists()
    assert np.array_equal(np.array(Image.open(masks / "a.png")), drawn)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.png").write_bytes(b"no picture")
    with pytest.raises(ConfigError, match="no prediction"):
        found.save(tmp_path / "out")
    (tmp_path / "out" / "a.png").unlink()
    assert found.save(tmp_path / "out") == found.save(tmp_path / "out")
    monkeypatch.chdir(tmp_path / "out")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    with pytest.raises(ConfigError, match="would replace the image of that name"):
        MaskPredictions(["a.png"], ("x", "y"), [drawn], [0.5]).save(tmp_path / "link")


def test_reduced_images_are_reduced_in_prediction_as_well(trained, tmp_path):
    data = from_folder(trained / "pictures")
    settings = {"model": {"name": "hamiltonian", "options": {"channels": [4], "blocks": 1}}, "training.epochs": 1,
                "data.reduce": 2, "data.batch_size": 12}  # fmt: skip
    run = ev.train("own-images", data, settings=settings, out=tmp_path / "run")
    predictor = run.predictor()
    assert predictor.input_shape == (1, 5, 7)
    small = ev.data.reduced(data, 2).test
    files = [trained / "pictures" / name / "0.png" for name in data.classes]
    pixels = np.stack([np.array(Image.open(path)).reshape(5, 2, 7, 2).mean((1, 3)).round() for path in files])
    assert small.shape == predictor.input_shape
    torch.testing.assert_close(predictor(files).probabilities, predictor(pixels.astype(np.uint8)).probabilities)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "give one of name, folder, npz to say which data, got none"),
        ({"name": "digits", "folder": "x"}, "got name and folder"),
        ({"name": "digits", "test": 0.1}, "test is for your own data"),
        ({"npz": "x.npz", "resize": [3, 3]}, "resize is for images in a folder"),
        ({"folder": " "}, "give a path"),
    ],
)
def test_sections_that_make_no_sense_are_refused(data, message):
    values = {"recipe": "r", "variant": "v", "model": {"name": "resnet"}, "data": data}
    with pytest.raises(ConfigError, match=message):
        Cell.read(values, "test")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"csv": "a.csv", "npz": "a.npz"}, "give one of csv and npz"),
        ({"test": 0.5}, "are for your own points"),
        ({"csv": "a.csv", "labelled": 2}, "labelled is for drawn points"),
        ({"csv": "a.csv", "label": True}, "label"),
    ],
)
def test_sections_of_points_that_make_no_sense_are_refused(data, message):
    values = {
        "recipe": "r",
        "variant": "v",
        "model": {"name": "point_resnet"},
        "task": {"name": "points"},
        "data": data,
    }
    with pytest.raises(ConfigError, match=message):
        Cell.read(values, "test")


def test_a_column_of_classes_may_be_named_by_a_number(tmp_path):
    table = write_table(tmp_path / "t.csv", "0,1,2", *(f"{k}.5,{k},{'ab'[k % 2]}" for k in range(20)))
    text = answer("run", "spirals", "--set", f"data.csv={table}", "--set", "data.label=2", "--set", "training.epochs=1",
                  "--set", "seeds=[0]", "--set", "variants={}", "--set", "model={name: point_resnet}", "--out",
                  str(tmp_path / "run"))  # fmt: skip
    assert "accuracy" in text
    assert read_record(tmp_path / "run").cell.data.label == "2"


def test_naming_other_data_drops_what_was_said_of_the_old():
    base = {"data": {"name": "digits", "batch_size": 50}}
    own = overlay(base, {"data": {"folder": "a", "test": 0.3}})
    assert own == {"data": {"batch_size": 50, "folder": "a", "test": 0.3}}
    assert overlay(own, {"data": {"name": "mnist"}}) == {"data": {"batch_size": 50, "name": "mnist"}}
    assert overlay(own, {"data": {"folder": "b"}}) == {"data": {"batch_size": 50, "folder": "b", "test": 0.3}}


def test_paths_of_a_recipe_and_its_variants_are_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe = load_recipe("own-images", ["variants={a: {data: {npz: b.npz}}, c: {}}"])
    assert [cell.data.npz or cell.data.folder for cell in recipe.cells()] == [
        str(tmp_path / "b.npz"),
        str(tmp_path / "images"),
    ]
    assert recipe.scope[0] == "b.npz, images"


def test_kinds_of_data_that_do_not_fit_the_task_are_said(tmp_path):
    np.savez(tmp_path / "points.npz", x=np.zeros((10, 3)), y=np.arange(10) % 2)
    np.savez(tmp_path / "images.npz", x=np.zeros((10, 3, 3), np.uint8), y=np.arange(10) % 2)
    with pytest.raises(ConfigError, match=r"has points, not images. Set task.name to points"):
        answer("run", "own-images", "--set", f"data.npz={tmp_path / 'points.npz'}", "--out", str(tmp_path / "r"))
    with pytest.raises(ConfigError, match=r"has images, not points. Set task.name to classification"):
        answer("run", "spirals", "--set", f"data.npz={tmp_path / 'images.npz'}", "--out", str(tmp_path / "r"))
