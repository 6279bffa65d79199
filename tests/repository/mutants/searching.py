"""Mutants of how long a search takes."""

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "sampled: the time is of the sampled point alone",
        "Sampled.tell",
        "if trial is None or trial.params != point:",
        "if trial is None:",
        "The sampler would never learn of the config that was measured.",
        ("search/test_sampled.py",),
    ),
    Mutant(
        "sampled: the furthest config is proposed",
        "Sampled.ask",
        "np.argmin(np.where(self._is_left, steps, np.inf))",
        "np.argmax(np.where(self._is_left, steps, -np.inf))",
        "What the sampler knows would be turned around.",
        ("search/test_sampled.py::test_tpe_learns",),
    ),
    Mutant(
        "blas: one thread for good",
        "one_thread",
        "found.set(_asked.before)",
        "pass",
        "Products that nobody cuts into parts are for all cores.",
        ("test_blas.py::test_one_thread_and_then_as_many_as_before",),
    ),
    Mutant(
        "blas: the first of two gives the threads back",
        "one_thread",
        "= 1\n            if _asked.count == 0:",
        "= 1\n            if True:",
        "The other goes on with all of them.",
        ("test_blas.py::test_of_two_that_overlap_the_last_gives_the_threads_back",),
    ),
    Mutant(
        "sampler: matrices by all threads",
        "SpaceSampler.infer_relative_search_space",
        "with one_thread():",
        "if True:",
        "Where compilers keep the cores busy, threads that wait for each other wait long.",
        ("test_bayesian.py::test_its_matrices_are_one_threads",),
    ),
    Mutant(
        "searching: a search by Gaussian processes needs torch alone",
        "search",
        '"Optuna GP": ("torch", "scipy")',
        '"Optuna GP": ("torch",)',
        "Where scipy is not installed it fails, instead of being left out.",
        ("test_search.py::test_a_search_says_which_module_it_lacks",),
    ),
)
