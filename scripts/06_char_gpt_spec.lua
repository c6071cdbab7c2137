-- A test of 06_char_gpt.lua, on a text of its own and a small network.
local optlua = require "optlua"
local testing = optlua.testing

describe("06_char_gpt.lua", function()
  local spec = testing.load "scripts/06_char_gpt.lua"
  local small = { text = "README.md", width = 16, heads = 2, layers = 1, context = 16, steps = 60 }

  it("learns, and writes when it has learnt", function()
    local result
    local text = testing.output(function() result = testing.loss_falls(spec, small) end)
    assert.matches("^The ", text)
    assert.equal(60, result.steps)
  end)

  it("does not look ahead", function()
    local model
    testing.output(function() model = spec:run(small).model end)
    local a, b = optlua.tensor({ { 0, 1, 2 } }, "int64"), optlua.tensor({ { 0, 1, 0 } }, "int64")
    testing.same_bits(model(a):narrow(2, 1, 2), model(b):narrow(2, 1, 2))
  end)
end)
