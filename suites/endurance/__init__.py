"""Measures endurance: many calls, many kernels, and many threads, each trial in a process of its own.

``kernel-bridge endure`` runs it. A :mod:`trial <suites.endurance.trial>` names what a process does;
:mod:`suites.endurance.trial_process` runs it there, with a time limit that shows the stacks of all threads. The kinds
of trials are :mod:`~suites.endurance.call_trials`, :mod:`~suites.endurance.kernel_trials` and
:mod:`~suites.endurance.thread_trials`. The command records the results like any other run, and
:mod:`reports.pages.endurance_table` shows them.
"""
