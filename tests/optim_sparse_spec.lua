-- SparseAdam: rows of an embedding that had no gradient stay, with their moments.
local optlua = require "optlua"
local nn, optim = optlua.nn, optlua.optim

local function row(tensor, i) return tensor:detach()[i]:totable() end

describe("SparseAdam", function()
  it("updates the rows that were looked up, and leaves the others and their moments", function()
    local table_ = nn.Embedding(4, 3)
    local optimizer = optim.SparseAdam(table_, { lr = 0.1 })
    local function step(ids)
      optimizer:zero_grad()
      table_(optlua.tensor(ids, { dtype = "int64" })):square():sum():backward()
      optimizer:step()
    end
    step { 0, 2, 2 }
    local before, state = table_.weight:detach():clone(), {}
    for name, value in pairs(optimizer:state_dict()) do state[name] = optlua.is_tensor(value) and value:clone() or value end
    step { 1, 2 }
    local after = optimizer:state_dict()
    for i = 1, 4 do
      local touched = i == 2 or i == 3
      assert.equal(not touched, before[i]:equal(table_.weight:detach()[i]), i)
      for _, slot in ipairs { "exp_avg", "exp_avg_sq" } do
        local name = "state.weight." .. slot
        assert.equal(not touched, state[name][i]:equal(after[name][i]), slot .. i)
      end
    end
    assert.equal(2, after["state.weight.step"])
  end)

  it("takes a row whole, with its elements of gradient 0", function()
    local p = optlua.zeros({ 2, 2 }, { dtype = "float64", requires_grad = true })
    local optimizer = optim.SparseAdam({ { "p", p } }, { lr = 0.1, betas = { 0.5, 0.5 } })
    for _, g in ipairs { { { 1, 1 }, { 0, 0 } }, { { 0, 1 }, { 0, 0 } } } do
      p.grad = optlua.tensor(g, { dtype = "float64" })
      optimizer:step()
    end
    assert.same({ 0.25, 0.75 }, row(optimizer:state_dict()["state.p.exp_avg"], 1))
    assert.same({ 0, 0 }, row(p, 2))
  end)

  it("counts a step in which no row had a gradient, as PyTorch does", function()
    local p = optlua.ones({ 2, 2 }, { requires_grad = true })
    local optimizer = optim.SparseAdam { p }
    p.grad = optlua.zeros { 2, 2 }
    optimizer:step()
    assert.same({ 1, 1 }, row(p, 1))
    assert.equal(1, optimizer:stats().updates)
  end)

  it("shows what is no number", function()
    local p = optlua.ones({ 2, 2 }, { requires_grad = true })
    p.grad = optlua.tensor { { 0, 0 }, { 0, 0 / 0 } }
    optim.SparseAdam({ p }):step()
    local values = row(p, 2)
    assert.same({ 1, 1 }, row(p, 1))
    assert.is_true(values[2] ~= values[2])
  end)

  it("refuses hyperparameters out of range", function()
    local p = optlua.ones({ 2, 2 }, { requires_grad = true })
    assert.error_matches(function() optim.SparseAdam({ p }, { betas = { 1, 0.9 } }) end, "betas")
    assert.error_matches(function() optim.SparseAdam({ p }, { lr = -1 }) end, "lr")
    assert.error_matches(function() optim.SparseAdam({ p }, { weight_decay = 0.1 }) end, "unknown hyperparameter .weight_decay")
  end)
end)
