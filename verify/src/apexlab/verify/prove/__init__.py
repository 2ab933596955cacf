"""What runs in the judged Python at the level `run`: calls of Apex's API, and what sees kernels.

That Python need not have apexlab. The modules here import the standard library, torch, Apex and
each other, and each other only relatively.
"""
