"""Mutants of how long a search takes."""

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "blas: one thread for good",
        "tuner/blas.py",
        "        found.set(before)\n",
        "        pass\n",
        "The oracle's products are large.",
        ("tests/tuner/test_blas.py::test_one_thread_and_then_as_many_as_before",),
    ),
    Mutant(
        "sampler: matrices by all threads",
        "tuner/sampler.py",
        "        with one_thread():\n",
        "        if True:\n",
        "Where compilers keep the cores busy, threads that wait for each other wait long.",
        ("tests/tuner/test_sampler.py::test_its_matrices_are_one_threads",),
    ),
)
