import ork


def main(input, ctx):
    total = 0
    for row in range(input["rows"]):
        ctx.check()  # raises when the task is cancelled
        total += row
        ctx.progress((row + 1) / input["rows"], {"row": row})
    print("loaded", input["rows"], "rows")
    return {"rows": input["rows"], "total": total}


def check(input, ctx):
    rows = input["load"]["rows"]
    if rows > input["most"]:
        # A retry would not help.
        raise ork.Terminal(f"{rows} rows are more than {input['most']}")
    return rows
