"""Files by their path, read by the libraries that people use, and columns that hold something else than numbers."""

import pickle
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pol.capture.author.measures import cross_entropy
from pol.capture.author.spec import JobSpec, RowsInOrder
from pol.capture.build import build_job
from pol.capture.data.columns import Scratch
from pol.capture.data.sources import read_columns, read_data
from pol.errors import JobError
from pol.local.run import run_locally

X = np.arange(12, dtype=np.float32).reshape(6, 2) / 8
Y = np.arange(6) % 2


def read(source: object, folder: Path, said: list[str] | None = None) -> dict[str, np.ndarray]:
    with Scratch(folder / "out") as scratch:
        found = read_columns(source, "train", scratch, (said if said is not None else []).append)
        return {name: np.array(column) for name, column in found.items()}


def pandas() -> Any:
    return import_module("pandas")


def table(**columns: Any) -> Any:
    return pandas().DataFrame(columns)


def rows_of_lists() -> Any:
    return table(x=X.tolist(), y=Y)


def arrow_table() -> Any:
    return import_module("pyarrow").table({"x": X.tolist(), "y": Y})


def saved(value: Any, path: Path, **options: Any) -> Path:
    torch.save(value, path, **options)
    return path


def written(text: str, path: Path) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "made",
    [
        lambda f: written(rows_of_lists().to_json(orient="records", lines=True), f / "a.jsonl"),
        lambda f: written(rows_of_lists().to_json(orient="records", lines=True), f / "a.json"),
        lambda f: written(rows_of_lists().to_json(orient="records"), f / "a.json"),
        lambda f: written('{"x": ' + str(X.tolist()) + ', "y": ' + str(Y.tolist()) + "}", f / "a.json"),
        lambda f: saved({"x": torch.tensor(X), "y": torch.tensor(Y)}, f / "a.pt"),
        lambda f: saved((torch.tensor(X), torch.tensor(Y)), f / "a.pth"),
        lambda f: saved(
            {"x": torch.tensor(X), "y": torch.tensor(Y)},
            f / "a.pt",
            _use_new_zipfile_serialization=False,
        ),
        lambda f: {"x": saved(torch.tensor(X), f / "x.pt"), "y": Y},
        lambda f: rows_of_lists(),
        lambda f: arrow_table(),
        lambda f: (X, Y),
        lambda f: (torch.tensor(X), Y),
    ],
)
def test_all_of_these_are_the_same_columns(tmp_path: Path, made: Any) -> None:
    found = read(made(tmp_path), tmp_path)
    assert [str(found[name].dtype) for name in "xy"] == ["float32", "int64"]
    np.testing.assert_array_equal(found["x"], X)
    np.testing.assert_array_equal(found["y"], Y)


@pytest.mark.parametrize(("ending", "separator"), [(".csv", ","), (".tsv", "\t")])
def test_a_table_as_text_is_what_pandas_makes_of_it(tmp_path: Path, ending: str, separator: str) -> None:
    frame = table(a=X[:, 0], flag=Y > 0, n=Y)
    path = tmp_path / f"a{ending}"
    frame.to_csv(path, sep=separator)
    said: list[str] = []
    found = read(str(path), tmp_path, said)
    assert list(found) == ["a", "flag", "n"]
    assert found["flag"].dtype == np.bool_
    np.testing.assert_array_equal(found["a"], X[:, 0])
    assert said[0] == f"train: the index column that to_csv wrote into a{ending} is left out"


def test_a_csv_and_a_holdout_of_tensors_train_as_the_loop(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 16)).astype("f4")
    frame = table(a=a, b=b, y=(a > b).astype("i8"))
    frame.to_csv(tmp_path / "table.csv", index=False)
    holdout = {name: torch.tensor(frame[name].to_numpy()) for name in frame}
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)

    def loss(model: nn.Module, batch: Any) -> torch.Tensor:
        x = torch.stack([batch["a"], batch["b"]], 1).float()
        return nn.functional.cross_entropy(model(x), batch["y"])

    spec = JobSpec(
        name="table",
        model=model,
        loss=loss,
        train=tmp_path / "table.csv",
        holdout=saved(holdout, tmp_path / "holdout.pt"),
        batch=16,
        steps=4,
        optimizer=optimizer,
        weights="keep",
        precision=22,
        sampling=RowsInOrder(),
    )
    build_job(spec, tmp_path / "job")
    found = run_locally(tmp_path / "job").state
    for _ in range(4):
        optimizer.zero_grad()
        loss(model, holdout).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    for name, tensor in model.state_dict().items():
        np.testing.assert_allclose(found[name], tensor.numpy(), rtol=1e-4, atol=1e-5)


# --- images --------------------------------------------------------------------------------------


def pictures(folder: Path, **classes: int) -> Path:
    rng, image = np.random.default_rng(3), import_module("PIL.Image")
    for name, count in classes.items():
        (folder / name / "more").mkdir(parents=True)
        for number in range(count):
            pixels = rng.integers(0, 256, (4, 6, 3), np.uint8)
            place = folder / name / ("more" if number == 1 else "")
            image.fromarray(pixels).save(place / f"{number}.{'PNG' if number else 'png'}")
    (folder / next(iter(classes)) / "notes.txt").write_text("no image")
    return folder


def test_a_folder_of_images_is_that_of_torchvision(tmp_path: Path) -> None:
    vision = import_module("torchvision")
    folder = pictures(tmp_path / "photos", cat=3, ant=2)
    said: list[str] = []
    found = read(folder, tmp_path, said)
    wanted = vision.datasets.ImageFolder(str(folder), vision.transforms.ToTensor())
    assert said[-1] == "train: 5 images, x from 0 to 1; classes: ant 0, cat 1"
    assert found["y"].tolist() == [y for _, y in wanted]
    np.testing.assert_array_equal(found["x"], np.stack([x.numpy() for x, _ in wanted]))


def test_a_split_of_a_folder_with_transforms_is_read_once(tmp_path: Path) -> None:
    vision = import_module("torchvision")
    transform = vision.transforms.Compose([vision.transforms.Resize((2, 3)), vision.transforms.ToTensor()])
    folder = vision.datasets.ImageFolder(str(pictures(tmp_path / "a", ant=4, cat=4)), transform)
    train, _ = torch.utils.data.random_split(folder, [6, 2], torch.Generator().manual_seed(1))
    said: list[str] = []
    found = read(train, tmp_path, said)
    assert found["y"].tolist() == [train[index][1] for index in range(6)]
    assert found["x"].shape == (6, 3, 2, 3)
    assert "6 items, each read once (random transforms are drawn only once)" in said[-1]


def _other_size(folder: Path) -> None:
    import_module("PIL.Image").new("RGB", (3, 5)).save(folder / "cat" / "9.png")


def _damaged(folder: Path) -> None:
    (folder / "cat" / "9.png").write_bytes(b"no image")


def _empty(folder: Path) -> None:
    (folder / "dog").mkdir()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_other_size, r"cat/9\.png has 3 x 5 pixels, but the first image has 6 x 4.*Resize"),
        (_damaged, r"cat/9\.png cannot be read as an image"),
        (_empty, "has no images for the classes dog"),
        (lambda f: written("{}", f / "dataset_info.json"), "load_from_disk"),
    ],
)
def test_a_folder_that_is_none_of_images_of_one_size_is_refused(
    tmp_path: Path, change: Callable[[Path], object], reason: str
) -> None:
    folder = pictures(tmp_path / "photos", ant=2, cat=2)
    change(folder)
    with pytest.raises(JobError, match=f"train: .*{reason}"):
        read(folder, tmp_path)


def test_two_folders_number_their_classes_alike(tmp_path: Path) -> None:
    train, other = pictures(tmp_path / "a", ant=2, cat=2), pictures(tmp_path / "b", ant=1, dog=1)
    spec = JobSpec(
        name="a",
        model=nn.Linear(1, 1),
        loss=cross_entropy(),
        train=train,
        holdout=str(other),
        batch=2,
        steps=1,
    )
    reason = "holdout: its classes are ant, dog, but those of train are ant, cat"
    with Scratch(tmp_path / "out") as scratch, pytest.raises(JobError, match=reason):
        read_data(spec, scratch, lambda _: None)


# --- what is no number, and what is no file --------------------------------------------------------


DAYS = ["2020-01-02", "2020-03-04"] * 3


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (
            ["Berlin", "Paris"] * 3,
            r"holds text \('Berlin', 'Paris'\).*map\(\{'Berlin': 0, 'Paris': 1\}\)",
        ),
        (list("abcdef"), r"holds text \('a', 'b', 'c', …\).*'c': 2, …\}"),
        (["Berlin", None] * 3, r"holds text \('Berlin'\)"),
        (["3", "4.5"] * 3, r"holds numbers as text.*table\[\"c\"\]\.astype\(float\)"),
        (DAYS, "holds dates as text.*to_datetime.*days"),
        (["1.2.2020"] * 6, "holds dates as text"),
        (lambda: pandas().to_datetime(DAYS), "holds dates; count days from a date"),
        (lambda: pandas().to_datetime(DAYS, utc=True), "row 0 holds a Timestamp"),
        (lambda: pandas().to_timedelta([1] * 6, unit="s"), "holds time spans.*total_seconds"),
        (lambda: pandas().Series(list("ababab"), dtype="category"), r"holds text \('a', 'b'\)"),
        ([1 + 2j] * 6, r"holds complex numbers.*c\.real and c\.imag"),
        ([True, None] * 3, "row 1 has no value; leave out such rows"),
        (lambda: pandas().Series([1, None] * 3, dtype="Int64"), "row 1 holds NaN"),
        ([{"a": 1}] * 6, r"row 0 holds a dict, \{'a': 1\}"),
        ([[1, 2], [1, 2], [1]] * 2, r"row 2 has the shape \[1\], but row 0 has \[2\]; .*pad or crop"),
        ([[[1], [2, 3]]] * 6, "row 0 itself has parts of different lengths"),
        (
            [1.0, np.nan, np.nan] * 2,
            "row 1 holds NaN .*, and so do 3 of the other 5; leave out such rows",
        ),
        ([1.0] * 5 + [np.nan], r"row 5 holds NaN \(a missing value\); leave out such rows"),
        ([1.0] * 5 + [-np.inf], r"row 5 holds infinity.*clip"),
    ],
)
def test_a_column_that_holds_no_numbers_says_what_it_holds(tmp_path: Path, column: Any, reason: str) -> None:
    values = column() if callable(column) else column
    with pytest.raises(JobError, match=rf"train\.c: {reason}"):
        read(table(x=X[:, 0], c=values), tmp_path)


def test_all_columns_that_hold_no_numbers_are_named(tmp_path: Path) -> None:
    frame = table(age=[1, 2], city=["a", "b"], day=["2020-01-01"] * 2, more=["x", "y"])
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(JobError) as caught:
        read(tmp_path / "t.csv", tmp_path)
    assert caught.value.field == "train.city"
    assert caught.value.reason == "holds text ('a', 'b'); other columns that cannot be used: day, more"
    assert caught.value.remedy.startswith(
        'read the file in the job file, table = pandas.read_csv("t.csv"), and give train=table; replace'
    )


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.csv", "1,2\n3,4\n", "first line of a.csv has numbers.*header=None"),
        ("a.csv", "a;b\n3;4\n", r"separates its columns by ';'.*sep=';'"),
        ("a.csv", "a\n", "has no rows|no rows"),
        ("a.csv", "", "cannot be read as csv"),
        ("a.jsonl", '{"x": 1}\n{"x":', "cannot be read as jsonl"),
        ("a.json", '{"data": [{"x": 1}], "version": 2}', r"train\.data: row 0 holds a dict"),
        ("a.h5", "", r'h5py\.File\("a\.h5"\)'),
        ("a.hdf5", "", r'h5py\.File\("a\.hdf5"\)'),
        ("a.pkl", "", "a pickle may run code"),
        ("a.joblib", "", "a pickle may run code"),
        ("a.xlsx", "", r'pandas\.read_excel\("a\.xlsx"\)'),
        ("a.txt", "", r'assay\.text_rows\("a\.txt", 128\)'),
        ("a.mat", "", r"scipy\.io\.loadmat"),
        ("a.csv.gz", "", "unpack it"),
        ("a.jpg", "", "one folder of images per class"),
        ("a.bin", "", r"not a kind of file.*\.npz, \.npy.*a folder of images"),
        ("imdb", None, r'no file imdb; .*load_dataset\("imdb", split="train"\)'),
        ("missing.csv", None, "there is no file"),
    ],
)
def test_a_file_that_is_not_read_says_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str | None, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(JobError, match=reason) as caught:
        read(name, tmp_path)
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (lambda: ["a.csv", "b.csv"], r"is a list of paths.*pandas\.concat"),
        (
            lambda: SimpleNamespace(DESCR="", data=X, target=Y),
            r"scikit-learn.*\"x\": data\.data",
        ),
        (lambda: (X, Y, Y), "3 parts without names"),
        (lambda: {"x": X, "scale": 3.0}, r"train\.scale: is a single value, 3\.0.*np\.full"),
        (
            lambda: pandas().concat([table(a=[1]), table(a=[2])], axis=1),
            "two columns have the name 'a'",
        ),
        (lambda: {"x": "a.csv"}, "there is no file a.csv"),
    ],
)
def test_what_people_hold_beside_files_is_refused_with_a_remedy(
    tmp_path: Path, source: Callable[[], object], reason: str
) -> None:
    with pytest.raises(JobError, match=reason):
        read(source(), tmp_path)


RAN: list[int] = []


class Code:
    def __reduce__(self) -> Any:
        return RAN.append, (1,)


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (lambda p: torch.save(Code(), p), "holds more than tensors.*never runs"),
        (lambda p: p.write_bytes(pickle.dumps(Code())), "holds more than tensors.*never runs"),
        (lambda p: torch.save(nn.Linear(2, 2), p), "holds more than tensors"),
        (lambda p: torch.save({"x": X}, p), "holds more than tensors"),
        (lambda p: torch.save({"x": torch.ones(2), "epoch": 3}, p), r"train\.epoch: is a int"),
        (lambda p: torch.save({"x": torch.eye(2).to_sparse()}, p), "a tensor that is not dense"),
        (lambda p: torch.save([1, 2, 3], p), "holds a list"),
        (lambda p: p.write_bytes(b""), "damaged or cut off"),
        (lambda p: p.write_bytes(b"PK" + bytes(99)), "damaged or cut off"),
    ],
)
def test_of_what_torch_saved_only_tensors_are_read(
    tmp_path: Path, write: Callable[[Path], object], reason: str
) -> None:
    path = tmp_path / "a.pt"
    write(path)
    with pytest.raises(JobError, match=rf"{reason}.*; write only tensors: torch\.save"):
        read(path, tmp_path)
    assert not RAN


@pytest.mark.parametrize(
    ("package", "name", "extra"),
    [("pandas", "a.csv", "data"), ("pandas", "a.json", "data"), ("PIL.Image", "photos", "models")],
)
def test_a_library_that_is_missing_is_named_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, name: str, extra: str
) -> None:
    written("a\n1\n", tmp_path / "a.csv")
    written("[]", tmp_path / "a.json")
    pictures(tmp_path / "photos", cat=1)
    monkeypatch.setitem(sys.modules, package, None)
    whole = package.partition(".")[0]
    with pytest.raises(JobError, match=rf"needs the package {whole}; install assay\[{extra}\]"):
        read(tmp_path / name, tmp_path)


def test_a_file_larger_than_a_job_may_be_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written("a\n1\n", tmp_path / "a.csv")
    monkeypatch.setattr(Path, "stat", lambda _: type("Size", (), {"st_size": 2**33 + 1}))
    with pytest.raises(JobError, match=r"a\.csv has 8,589,934,593 bytes, but a job has at most"):
        import_module("pol.capture.data.readers").read_table(path, "train", lambda _: None)


# --- missing values ------------------------------------------------------------------------------


class Gaps(nn.Module):
    """Has a value of its own for what is missing, as a loop over data with NaN would use it."""

    def __init__(self) -> None:
        super().__init__()
        self.gap, self.score = nn.Parameter(torch.ones(3)), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor, gone: torch.Tensor) -> torch.Tensor:
        filled = torch.where(gone, self.gap, x)
        scores: torch.Tensor = self.score(torch.cat([filled, gone.float()], 1))
        return scores


def test_a_column_that_says_where_values_are_missing_trains_as_the_loop_over_nan(
    tmp_path: Path,
) -> None:
    x = np.random.default_rng(0).standard_normal((16, 3)).astype("f4")
    y = (x[:, 0] > 0).astype("i8")
    x[::3, 2] = np.nan
    torch.manual_seed(0)
    model = Gaps()
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    data = {"x": np.nan_to_num(x), "gone": np.isnan(x), "y": y}
    spec = JobSpec(
        name="gaps",
        model=model,
        train=data,
        holdout=data,
        batch=16,
        steps=4,
        weights="keep",
        loss=lambda m, b: nn.functional.cross_entropy(m(b["x"], b["gone"]), b["y"]),
        optimizer=optimizer,
        precision=22,
        sampling=RowsInOrder(),
    )
    build_job(spec, tmp_path)
    found = run_locally(tmp_path).state
    rows = torch.tensor(x)
    for _ in range(4):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(rows, rows.isnan()), torch.tensor(y)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    for name, tensor in model.state_dict().items():
        np.testing.assert_allclose(found[name], tensor.numpy(), rtol=1e-4, atol=1e-5)


def test_what_the_page_says_of_missing_values_works_as_written(tmp_path: Path) -> None:
    """Each line of its two blocks is run alone, on a table and on an array with NaN, and leaves none."""
    page = (Path(__file__).parents[4] / "docs" / "jobs.md").read_text(encoding="utf-8")
    section = page.partition("### Missing values")[2].partition("\n### ")[0]
    lines = [line.strip() for line in section.splitlines() if line.startswith("    ")]
    assert len(lines) == 6
    for line in lines:
        x = np.where(np.arange(12).reshape(6, 2) % 5 == 1, np.nan, 1.0)
        names: dict[str, Any] = {"table": table(age=x[:, 0], y=Y), "x": x, "y": Y, "np": np}
        exec(line, names)
        is_table = line.startswith("table")
        made = names["table"] if is_table else {"x": names["x"], "y": names["y"]}
        rows = len(read(made, tmp_path)["y"])
        assert rows == ((5 if is_table else 3) if "leave such rows out" in line else 6)
