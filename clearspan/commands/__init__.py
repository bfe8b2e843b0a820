"""What each command takes: one module for each group of commands, with its options and help texts.

They import only argparse, so that ``--help`` and wrong usage are answered at once. A command names the function that
runs it as ``module:function``.
"""
