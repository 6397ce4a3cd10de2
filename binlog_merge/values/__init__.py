"""MySQL values: conversion between column types, evaluation of expressions as the server does it, values as SQL."""
