-- A test of transfer.lua, where the images are: apt-get install dataset-fashion-mnist
local testing = require("optlua").testing

describe("transfer.lua", function()
  it("learns from some of the images", function()
    local there = pcall(require("optlua").data.fashion_mnist)
    if not there then return pending "Fashion-MNIST is not there" end
    local text = testing.output(testing.load, "scripts/transfer.lua", "--items=1000", "--few=40", "--epochs=2")
    local accuracies = {}
    for share in text:gmatch "accuracy ([%d.]+)" do accuracies[#accuracies + 1] = tonumber(share) end
    assert.equal(4, #accuracies)
    assert.is_true(accuracies[1] > 0.4)
  end)
end)
