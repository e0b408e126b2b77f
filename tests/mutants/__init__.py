"""Mutation testing: do the tests notice a changed operator, number or argument?"""
