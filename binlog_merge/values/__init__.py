"""MySQL values: conversion between column types and evaluation of expressions, as the server does both."""
