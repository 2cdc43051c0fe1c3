"""The command line, certificates, the federation on one machine, images: imports every other folder, imported by
none.
"""
