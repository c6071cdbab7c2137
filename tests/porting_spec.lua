-- Models that PyTorch made, trained and saved: they load here by name, compute the same and learn the same.
-- Saved here they load there: tests/golden/check_models.py.
local optlua = require "optlua"
local ported = require "models.ported"

-- The largest distance between elements of two tensors.
local function distance(a, b)
  assert.are.same(b.shape, a.shape)
  return (a - b):abs():max():item()
end

for _, name in ipairs { "resnet18", "gpt2" } do
  describe(name, function()
    local data = ported.recorded(name)

    it("computes what PyTorch computes, and ten steps of AdamW have the same losses", function()
      local model, path = ported.build(name)
      model:load(path)
      assert.is_true(distance(ported.output(model, data), data.outputs) < 1e-5)
      for step, loss in ipairs(ported.train(model, data)) do
        assert.near(data.losses[step]:item(), loss, 1e-4, "step " .. step)
      end
      assert.is_true(distance(ported.output(model, data), data.trained) < 1e-4)
    end)

    it("comes back from a file as it was, under PyTorch's names", function()
      local model, path = ported.build(name)
      model:load(path)
      local copy = os.tmpname()
      model:save(copy)
      local wanted, got = optlua.load(path), optlua.load(copy)
      for key, tensor in pairs(wanted) do
        assert.is_true(tensor.dtype == got[key].dtype and tensor:equal(got[key]), key)
        got[key] = nil
      end
      assert.is_nil(next(got))
      local again = ported.build(name)
      again:load(copy)
      os.remove(copy)
      assert.are.equal(0, distance(ported.output(again, data), ported.output(model, data)))
    end)
  end)
end
