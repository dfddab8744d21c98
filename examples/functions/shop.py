import os

import ork


@ork.task
def describe(input, ctx: ork.Context):
    ctx.log("the %s sells in %s", os.environ["SHOP"], os.environ["CURRENCY"])
    return {"shop": os.environ["SHOP"]}
