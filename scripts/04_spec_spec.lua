-- A test of 04_spec.lua: its groups, that it learns, that its config can be changed.
local testing = require("optlua").testing

describe("04_spec.lua", function()
  local spec = testing.load "scripts/04_spec.lua"

  it("has no decay for biases, and learns", function()
    local result = testing.loss_falls(spec, { steps = 20 })
    testing.groups_are(result.state.optimizers, { biases = { "0.bias", "3.bias" }, rest = { "0.weight", "3.weight" } })
    assert.equal(0, result.state.optimizers.groups.biases.weight_decay)
  end)

  it("gives the same bits for the same seed", function()
    local one, other = spec:run { steps = 3, width = 16 }, spec:run { steps = 3, width = 16 }
    testing.same_bits(one.model[1].weight, other.model[1].weight)
  end)

  it("trains with another optimizer", function()
    testing.loss_falls(spec, { steps = 20, optimizer = { class = "SGD", momentum = 0.9, lr = 0.1 } })
  end)
end)
