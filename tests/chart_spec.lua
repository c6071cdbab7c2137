-- Curves as text and as SVG.
local chart = require "optlua.chart"
local files = require "files"

local fails = require("fails").containing

local function line(name, values, x)
  values.name, values.x = name, x
  return values
end

describe("a chart in text", function()
  it("has a scale, marks, a legend; the first line lies on top", function()
    assert.equal(table.concat({
      "         2 |  *",
      "           |+*+",
      "         0 |*",
      "           +---",
      "            0 2",
      "            * a",
      "            + b",
    }, "\n"), chart.text({ line("a", { 0, 1, 2 }), line("b", { 1, 1, 1 }) }, 3, 3))
  end)

  it("places values where they are", function()
    assert.equal(table.concat({
      "         1 | +***",
      "         0 |**",
      "           +-----",
      "            5   9",
      "            * a",
      "            + b",
    }, "\n"), chart.text({ line("a", { 0, 1 }, { 5, 9 }), line("b", { 1 }, { 6 }) }, 5, 2))
  end)

  it("leaves out what is not finite, and takes anything else", function()
    local text = chart.text({ line("a", { 0 / 0, 1, 1 / 0, 3, -1 / 0 }) }, 5, 3)
    assert.matches("^ +3 |   %*\n", text)
    assert.equal(3, select(2, text:gsub("%*", ""))) -- and the legend
    for _, values in ipairs { {}, { 5 }, { 0, 0 }, { -3, -3 }, { 0 / 0 }, { 1e308, -1e308 }, { 5e-324 } } do
      local drawn = chart.text({ line("x", values) }, 20, 4)
      assert.equal(7, select(2, drawn:gsub("[^\n]+", "")))
      assert.not_matches("nan", drawn)
    end
    assert.matches("0", chart.text({}, 20, 4))
    local many = {}
    for k = 1, 10 do many[k] = line("l" .. k, { k }) end
    assert.matches("%* l9\n", chart.text(many, 20, 12))
  end)
end)

describe("a chart as SVG", function()
  it("has a line for each, with its name", function()
    local svg = chart.svg { line("a<b> & \"c\"", { 0, 1, 0.5 }), line("b", { 1 / 0, 1 }) }
    assert.matches('points="70.00,360.00 385.00,20.00 700.00,190.00"', svg)
    assert.matches('points="385.00,20.00"', svg)
    assert.matches(">a&lt;b&gt; &amp; &quot;c&quot;</text>", svg)
    assert.matches("</svg>\n$", svg)
    for tag in ("svg g"):gmatch "%S+" do
      assert.equal(select(2, svg:gsub("<" .. tag .. "[ >]", "")), select(2, svg:gsub("</" .. tag .. ">", "")))
    end
    assert.not_matches("nan", chart.svg { line("x", {}), line("y", { 1e308, -1e308 }) })
  end)

  it("is written whole, or the reason is said", function()
    files.with_folder(function(folder)
      local lines = { line("a", { 1, 2 }) }
      assert.equal(chart.text(lines, 10, 3), chart.draw(lines, { width = 10, height = 3, path = folder .. "/x.svg" }))
      assert.equal(chart.svg(lines), files.read(folder .. "/x.svg"))
    end)
    fails("the chart: /nowhere/x.svg: cannot be written: No such file", chart.draw, {}, { width = 10, height = 3, path = "/nowhere/x.svg" })
    fails("the chart: /dev/full: No space left on device", chart.draw, {}, { width = 10, height = 3, path = "/dev/full" })
  end)
end)
