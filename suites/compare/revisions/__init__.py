"""Makes two git revisions ready to run side by side: their files and their operators.

``repository`` asks git. ``sides`` says how the processes of each side are started.
"""
