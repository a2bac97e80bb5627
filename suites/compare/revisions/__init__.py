"""Makes two git revisions ready to run: their files and their operators.

``repository`` asks git. ``revision_pair`` says how the processes of each revision are started.
"""
