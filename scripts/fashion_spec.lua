-- A test of fashion.lua, where the images are: apt-get install dataset-fashion-mnist
local testing = require("optlua").testing

describe("fashion.lua", function()
  it("learns from some of the images", function()
    local there = pcall(require("optlua").data.fashion_mnist)
    if not there then return pending "Fashion-MNIST is not there" end
    local text = testing.output(testing.load, "scripts/fashion.lua", "--epochs=1", "--items=3200", "--warmup=10")
    assert.is_true(tonumber(text:match "test accuracy ([%d.]+)") > 0.6)
    assert.matches("\nAnkle boot +[%d.]+\n$", text)
  end)
end)
