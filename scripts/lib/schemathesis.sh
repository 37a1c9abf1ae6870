# shellcheck shell=bash disable=SC2034  # read by whoever sources this
# Which schemathesis tests the API, and where it is kept. Source it after common.sh.

schemathesis_version=4.32.5
# What it asks with a given seed is this library's choice.
schemathesis_hypothesis_version=6.170.15
schemathesis_home=${cache:?source common.sh first}/schemathesis-$schemathesis_version
