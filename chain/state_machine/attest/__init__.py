"""Credentials of confidential machines: policies by vote, requests that panels judge, and who has which credential."""
