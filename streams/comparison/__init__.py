"""What changed in the evidence between two recordings of the same requests, and why.

sides (what of a recording is compared) → alignment (which evidence is the same) → differences (of one
request) → summary (of all) → findings, thresholds and reports. Files are joined by request id on disk, so
that memory does not grow with them.
"""
