-- A test of char_gpt.lua: a small network, a short text.
local testing = require("optlua").testing

describe("char_gpt.lua", function()
  it("learns, and writes as much as it is asked for", function()
    local text = testing.output(testing.load, "scripts/char_gpt.lua", "--text", "README.md", "--steps=100", "--width=16",
      "--heads=2", "--layers=1", "--context=16", "--lr=1e-2", "--tokens=20")
    local first, last = text:match "step   50  loss ([%d.]+).*step  100  loss ([%d.]+)"
    assert.is_true(tonumber(last) < tonumber(first))
    local written = text:match "\n(The .*)\n$"
    assert.equal(24, utf8.len(written))
  end)
end)
