-- JSON of configs, logs and checkpoints.
local core = require "optlua.core"
local decode, encode = core.hidden.json_decode, core.hidden.json_encode
local record = require "optlua.checkpoint.record"

local fails = require("fails").containing

describe("JSON", function()
  it("gives back what was written", function()
    for _, value in ipairs { 1, 0.1, -5, "", "a\0b", "é", true, { 1, { 2 } }, { a = { b = "c" } } } do
      assert.same(value, decode(encode(value)))
    end
    assert.equal("{}", encode {})
    assert.same({}, decode "[]")
  end)

  it("refuses tables of which something would be lost", function()
    fails("JSON: a table with both a list and names", encode, { 1, 2, x = 3 })
    fails("JSON: a table with both a list and names", encode, { { 1, x = 2 } })
    fails("JSON: a key that is no text", encode, { [3.5] = 1 })
    fails("JSON: a key with a byte 0: a", encode, { ["a\0b"] = 1, ["a\0c"] = 2 })
  end)

  it("refuses what is no UTF-8", function()
    fails("JSON: a text that is no UTF-8", encode, { a = "\xff" })
    fails("JSON: a key that is no UTF-8", encode, { ["\xff"] = 1 })
    fails("JSON: a text that is no UTF-8", encode, "\u{D800}")
  end)
end)

describe("a record", function()
  it("gives back names that begin as its own do", function()
    local value = { a = { ["$float"] = "hello" }, b = { ["$"] = 1, ["$$float"] = "nan" }, ["$c"] = 1 / 0 }
    assert.same(value, record.decode(record.encode("it", value)))
  end)

  it("says where a text is that is no UTF-8", function()
    fails("it.a.b: a text that is no UTF-8", record.encode, "it", { a = { b = "\xff" } })
    fails("it.a: a key that is no UTF-8", record.encode, "it", { a = { ["\xff"] = 1 } })
  end)
end)
