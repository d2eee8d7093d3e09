"""Launchers: patches from the environment or from a block hold in the launched child processes, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import pytest
from environments import LOUD, Environment, furnished

SCRIPT = """
import contextlib, json, os, subprocess, sys, warnings
import vendor

def speak(*_):
    return vendor.speak()

{scene}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    found = []
    if "BLOCK" in os.environ:
        import hookpatch
        with hookpatch.active("loud"):
            found.append(scene())
    found.append(scene())
    print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def home(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment with a plugin, and a folder with the vendor's module."""
    files = {"vendor.py": "def speak(*_): return 'vendor'\n"}
    return furnished(tmp_path_factory.mktemp("launchers"), wheels, {"loud": LOUD}, files)


def words_of_children(home: Environment, name: str, scene: str, **variables: str) -> Any:
    """Run a scene in a script and return the words of each child process."""
    script = home.folder / f"{name}.py"
    script.write_text(SCRIPT.format(scene=dedent(scene)))
    completed = home.run(script.name, PYTHONPATH=str(home.folder), **variables)
    assert completed.returncode == 0, completed.stderr
    return json.loads(completed.stdout.splitlines()[-1])


def check(home: Environment, name: str, scene: str, count: int) -> None:
    """Check that all words are patched from the environment.

    A block patches, too, and after the block the words are plain.
    """
    plain, patched = ["vendor"] * count, ["VENDOR"] * count
    assert words_of_children(home, name, scene, HOOKPATCH_PLUGINS="loud") == [patched]
    assert words_of_children(home, name, scene, BLOCK="1") == [patched, plain]


# --- the standard library

METHODS: Final = ("fork", "spawn", "forkserver")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.sampled(1)
def test_multiprocessing(home: Environment, method: str) -> None:
    """A process, a pool and an executor are patched, with each start method."""
    scene = f"""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    def put(queue):
        queue.put(speak())

    def scene():
        context = multiprocessing.get_context({method!r})
        queue = context.SimpleQueue()
        process = context.Process(target=put, args=(queue,))
        process.start()
        said = [queue.get()]
        process.join()
        with context.Pool(2) as pool:
            said += pool.map(speak, range(2))
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            said += pool.map(speak, range(2))
        return said
    """
    check(home, f"multiprocessing_{method}", scene, 5)


@pytest.mark.launcher
@pytest.mark.parametrize("method", METHODS)
def test_multiprocess(home: Environment, method: str) -> None:
    """Child processes of multiprocess, a fork of multiprocessing used by datasets, are patched.

    The fork server started inside the block keeps no patch afterwards.
    """
    scene = f"""
    import multiprocess

    def scene():
        context = multiprocess.get_context({method!r})
        with context.Pool(1) as pool:
            return pool.map(speak, range(2))
    """
    check(home, f"multiprocess_{method}", scene, 2)


@pytest.mark.ends
def test_pool_whose_workers_are_refused_for_ever_says_how_to_end_it(home: Environment) -> None:
    """A pool restarts refused workers for ever and does not report the failure.

    Each worker prints how to end the program.
    """
    script = home.folder / "refused.py"
    script.write_text(
        dedent("""
        import multiprocessing, os, threading, time
        if __name__ == "__main__":
            os.environ["HOOKPATCH_PLUGINS"] = "gone"
            threading.Timer(2, os._exit, [3]).start()
            multiprocessing.get_context("spawn").Pool(1).apply(print)
        """)
    )
    completed = home.run(script.name)
    error, note, *again = completed.stderr.splitlines()
    assert (completed.returncode, again[:2]) == (3, [error, note])
    assert error.startswith("hookpatch: error: no plugin 'gone' (asked for by HOOKPATCH_PLUGINS=gone)")
    assert note == (
        "hookpatch: multiprocessing.Pool replaces each ended worker, for ever: end the program with Ctrl-C, or use "
        "ProcessPoolExecutor, which raises BrokenProcessPool"
    )


def test_programs(home: Environment) -> None:
    """A script, a module, code, standard input, a folder and a zip file are patched.

    A program started by a patched program is, too.
    """
    scene = """
    import zipfile
    CODE = "import vendor; print(vendor.speak())"
    NESTED = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CODE!r}])"

    def scene():
        os.makedirs("folder", exist_ok=True)
        for path in ("program.py", "folder/__main__.py"):
            with open(path, "w") as file:
                file.write(CODE)
        with zipfile.ZipFile("archive.pyz", "w") as archive:
            archive.writestr("__main__.py", CODE)
        ways = ["program.py"], ["-m", "program"], ["-c", CODE], ["-"], ["folder"], ["archive.pyz"], ["-c", NESTED]
        return [
            subprocess.run([sys.executable, *way], input=CODE, stdout=subprocess.PIPE, text=True).stdout.strip()
            for way in ways
        ]
    """
    check(home, "programs", scene, 7)


def test_isolated_program_is_not_patched(home: Environment) -> None:
    """Programs with -I or -E are not patched, neither from the environment nor from a block."""
    scene = """
    CODE = "import sys; sys.path.insert(0, '.'); import vendor; print(vendor.speak())"

    def scene():
        ways = ["-I"], ["-E"], ["-I", "-s"]
        return [
            subprocess.run([sys.executable, *way, "-c", CODE], stdout=subprocess.PIPE, text=True).stdout.strip()
            for way in ways
        ]
    """
    assert words_of_children(home, "isolated", scene, HOOKPATCH_PLUGINS="loud") == [["vendor"] * 3]
    assert words_of_children(home, "isolated", scene, BLOCK="1") == [["vendor"] * 3] * 2


# --- torch


@pytest.mark.launcher
@pytest.mark.parametrize("method", METHODS)
def test_dataloader_workers(home: Environment, method: str) -> None:
    """DataLoader workers are patched with each start method.

    Except with fork, each worker imports torch anew, so a single worker is used.
    """
    workers = 2 if method == "fork" else 1
    scene = f"""
    import torch

    class Words(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, at):
            return speak()

    def scene():
        loader = torch.utils.data.DataLoader(Words(), num_workers={workers}, multiprocessing_context={method!r})
        return [word for batch in loader for word in batch]
    """
    check(home, f"dataloader_{method}", scene, 4)


@pytest.mark.launcher
def test_torch_multiprocessing_spawn(home: Environment) -> None:
    """Processes of torch.multiprocessing.spawn are patched, and report through files."""
    scene = """
    import torch.multiprocessing

    def write(rank, folder):
        with open(f"{folder}/{rank}", "w") as file:
            file.write(speak())

    def scene():
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(write, args=(folder,), nprocs=2)
            return [open(f"{folder}/{rank}").read() for rank in range(2)]
    """
    check(home, "torch_spawn", scene, 2)


@pytest.mark.launcher
def test_torchrun(home: Environment) -> None:
    """Two torchrun processes are patched, and gather their words with gloo."""
    (home.folder / "gathers.py").write_text(
        dedent("""
        import torch.distributed as dist
        import vendor

        dist.init_process_group("gloo")
        said = [None] * dist.get_world_size()
        dist.all_gather_object(said, vendor.speak())
        if dist.get_rank() == 0:
            print(*said)
        dist.destroy_process_group()
        """)
    )
    scene = """
    def scene():
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "gathers.py"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
        return done.stdout.split()
    """
    check(home, "torchrun", scene, 2)


# --- other launchers


@pytest.mark.launcher
def test_ray(home: Environment) -> None:
    """Tasks and actors of ray are patched.

    With a plain driver, only tasks and actors given the environment are patched.
    """
    scene = """
    def scene():
        import hookpatch
        import ray

        class Speaker:
            def speak(self):
                return speak()

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
        try:
            task, actor = ray.remote(speak), ray.remote(Speaker)
            asked = [task.remote(), actor.remote().speak.remote()]
            if speak() == "vendor":
                handed = {"runtime_env": {"env_vars": hookpatch.environment("loud")}}
                task, actor = task.options(**handed), actor.options(**handed)
                asked += [task.remote(), actor.remote().speak.remote()]
            return ray.get(asked)
        finally:
            ray.shutdown()
    """
    assert words_of_children(home, "on_ray", scene, HOOKPATCH_PLUGINS="loud") == [["VENDOR"] * 2]
    assert words_of_children(home, "on_ray", scene, BLOCK="1") == [["VENDOR"] * 2, ["vendor"] * 2 + ["VENDOR"] * 2]


@pytest.mark.launcher
def test_dask(home: Environment) -> None:
    """The workers of a local dask cluster are patched, each started by a nanny."""
    scene = """
    def scene():
        import logging
        from distributed import Client, LocalCluster
        logging.disable(logging.CRITICAL)
        with LocalCluster(2, processes=True, threads_per_worker=1, dashboard_address=None) as cluster:
            with Client(cluster) as client:
                return [*client.run(speak).values(), client.submit(speak).result()]
    """
    check(home, "on_dask", scene, 3)


@pytest.mark.launcher
def test_joblib(home: Environment) -> None:
    """loky workers are patched. The workers would keep the patch after the block, so the scene ends the executor."""
    scene = """
    def scene():
        import joblib
        from joblib.externals.loky import get_reusable_executor
        said = joblib.Parallel(n_jobs=2)(joblib.delayed(speak)(at) for at in range(2))
        get_reusable_executor().shutdown(wait=True)
        return said
    """
    check(home, "on_joblib", scene, 2)


@pytest.mark.launcher
def test_jupyter_kernel(home: Environment) -> None:
    """A notebook that nbclient executes is patched."""
    kernel = home.folder / "share" / "kernels" / "ours"
    kernel.mkdir(parents=True)
    command = [str(home.python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({"argv": command, "display_name": "ours", "language": "python"}))
    scene = f"""
    def scene():
        import nbclient, nbformat
        os.environ["JUPYTER_PATH"] = {str(home.folder / "share")!r}
        cells = [nbformat.v4.new_code_cell("import vendor; print(vendor.speak())")]
        notebook = nbformat.v4.new_notebook(cells=cells)
        nbclient.NotebookClient(notebook, kernel_name="ours", timeout=60).execute()
        return [notebook.cells[0].outputs[0]["text"].strip()]
    """
    check(home, "on_jupyter", scene, 1)


@pytest.mark.launcher
def test_pytest_xdist(home: Environment) -> None:
    """The pytest-xdist workers, started by execnet, are patched."""
    (home.folder / "test_words.py").write_text(
        dedent("""
        import os
        import pytest
        import vendor

        @pytest.mark.parametrize("at", range(2))
        def test_word(at, worker_id):
            open(f"said-{at}", "w").write(f"{worker_id[:2]} {vendor.speak()}")
        """)
    )
    scene = """
    def scene():
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "test_words.py"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        said = [open(f"said-{at}").read().split() for at in range(2)]
        assert [worker for worker, _ in said] == ["gw", "gw"]
        return [word for _, word in said]
    """
    check(home, "on_xdist", scene, 2)
