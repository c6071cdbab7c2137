-- A test of 02_custom_optimizer.lua: our Lion against optlua's own, bit for bit.
local optlua = require "optlua"
local optim, testing = optlua.optim, optlua.testing

describe("02_custom_optimizer.lua", function()
  testing.output(testing.load, "scripts/02_custom_optimizer.lua")
  local Lion = optim.resolve "MyLion"

  it("moves weights as the built-in Lion does", function()
    local function trained(class)
      local w = optlua.tensor({ 1, -2, 3 }, { requires_grad = true })
      local optimizer = class({ w }, { lr = 0.1, weight_decay = 0.5 })
      for _ = 1, 5 do
        optimizer:zero_grad()
        w:square():sum():backward()
        optimizer:step()
      end
      return w
    end
    testing.same_bits(trained(Lion), trained(optim.Lion))
  end)

  it("refuses rates below 0", function()
    assert.has_error(function() Lion({ optlua.ones(1) }, { lr = -1 }) end)
  end)
end)
