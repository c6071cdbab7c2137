-- A test of gan_2d.lua: who trains what, and that samples come nearer to the ring.
local testing = require("optlua").testing

describe("gan_2d.lua", function()
  local spec = testing.load "scripts/gan_2d.lua"
  local function distance(steps)
    local text = testing.output(function() spec:run { steps = steps } end)
    return tonumber(text:match "nearest cluster ([%d.]+)")
  end

  it("gives each network an optimizer of its own", function()
    local optimizers
    testing.output(function() optimizers = spec:run({ steps = 1, optimizers = { disc = { lr = 0.5 } } }).state.optimizers end)
    assert.same({ 1e-3, 0.5 }, { optimizers.gen.groups.default.lr, optimizers.disc.groups.default.lr })
    assert.equal(6, #optimizers.gen.groups.default.names)
  end)

  it("comes nearer to the clusters", function() assert.is_true(distance(300) < distance(0) / 2) end)
end)
