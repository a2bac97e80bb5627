"""Makes two git revisions ready to run side by side: their files and their operators.

:mod:`suites.revisions.repository` asks git, :mod:`suites.revisions.sides` says how the processes of each are started.
"""
