"""Makes two git revisions ready to run side by side: their files, their environments and their operators.

:mod:`suites.revisions.repository` asks git, :mod:`suites.revisions.environments` installs a revision of this project,
:mod:`suites.revisions.sides` puts both together. Nothing here measures.
"""
