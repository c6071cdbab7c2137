-- Transforms of any class that come with the library; averages in a model, and the running statistics that belong to them.
local fails = require("fails").matching
local goldens = require "goldens"
local optlua = require "optlua"
local process = require "process"
local small = require "small"
local nn, optim = optlua.nn, optlua.optim
local make, train, bits = small.make, small.train, small.bits

local golden = goldens.read("optim_forms.txt", 4)

describe("lookahead", function()
  -- SGD with momentum and slow weights, one number at a time.
  local function naive(p, steps, o)
    local fast, slow, m = table.move(p, 1, #p, 1, {}), table.move(p, 1, #p, 1, {}), {}
    for t = 1, goldens.STEPS do
      for i, g in ipairs(steps[t]) do
        m[i] = t == 1 and g or o.momentum * m[i] + g
        fast[i] = fast[i] - o.lr * m[i]
        if t % o.k == 0 then
          slow[i] = slow[i] + o.slow_step * (fast[i] - slow[i])
          fast[i] = slow[i]
        end
      end
    end
    return fast
  end

  for _, o in ipairs { { lr = 0.1, momentum = 0.9, k = 5, slow_step = 0.5 }, { lr = 0.01, momentum = 0.5, k = 3, slow_step = 0.8 } } do
    it(("equals the paper's algorithm with k = %d"):format(o.k), function()
      local last
      goldens.run(golden, optim.lookahead(optim.SGD), o, "float64", function(_, values) last = values end)
      assert.is_true(goldens.worst(last, naive(golden.start, golden.steps, o)) <= 1e-12)
    end)
  end
end)

describe("centralize", function()
  it("takes the mean of all but the first dimension from gradients", function()
    local class, shapes = optim.centralize(optim.SGD), { { 3, 4 }, { 2, 3, 4, 5 }, { 6 }, {}, { 2, 0 } }
    local list, want = {}, {}
    for i, shape in ipairs(shapes) do
      local p, g = optlua.randn(shape, { dtype = "float64" }), optlua.randn(shape, { dtype = "float64" })
      local flat = #shape > 1 and g:numel() > 0 and g:reshape(shape[1], -1)
      want[i] = p - 0.1 * (flat and (flat - flat:mean(2, true)):reshape(shape) or g)
      p.requires_grad = true
      list[i], p.grad = p, g
    end
    class(list, { lr = 0.1 }):step()
    for i, p in ipairs(list) do assert.is_true(p:detach():allclose(want[i], { rtol = 1e-13, atol = 1e-14 }), i) end
  end)
end)

describe("a transform of the library", function()
  it("is made once of a class, has a name for configs, and stands around others", function()
    assert.equal(optim.lookahead(optim.AdamW), optim.resolve "Lookahead(AdamW)")
    assert.equal(optim.lookahead "torch.optim.AdamW", optim.resolve " Lookahead ( AdamW ) ")
    assert.equal("SWA(Centralize(SGD))", optim.resolve("SWA(Centralize(SGD))").name)
    local model = nn.Linear(2, 1)
    local optimizer = optim.container(model, { { match = "*.weight", class = "Lookahead(SGD)", k = 2 },
      { match = "*", class = "SWA(AdamW)", swa_every = 3 } })
    assert.equal(2, #optimizer.optimizers)
    assert.equal("Lookahead(SGD)", optimizer:state_dict()["class.group1"])
  end)

  it("is refused where it makes no sense", function()
    fails('unknown transform "Lookahed" %(did you mean "Lookahead"%?%); legal: Centralize, Lookahead, SAM, SWA', optim.resolve, "Lookahed(SGD)")
    fails('unknown optimizer "SDG" %(did you mean "SGD"%?%)', optim.resolve, "SWA(SDG)")
    fails('SWA is a transform, which stands around a class: write "SWA%(AdamW%)"', optim.resolve, "SWA")
    fails("the inner class has one of that name", optim.resolve, "SWA(SWA(SGD))")
    fails("optim.lookahead: class: a class or its name expected, got a number", optim.lookahead, 3)
    fails("swa_start: expected an integer at least 1, got 0", optim.swa "SGD", nn.Linear(1, 1), { swa_start = 0 })
    for _, name in ipairs { "lookahead", "swa", "centralize", "sam" } do
      fails(("optim.%s: a class alone expected; hyperparameters stand where"):format(name), optim[name], "SGD", { k = 10 })
    end
    local plain = optim.SGD(nn.Linear(1, 1))
    for _, kind in ipairs { "ema", "swa" } do
      fails(("swap_%s: averages are kept "):format(kind), plain["swap_" .. kind], plain)
      fails(("with_%s: averages are kept "):format(kind), plain["with_" .. kind], plain, print)
    end
  end)

  it("resumes bit for bit", function()
    for _, class in ipairs { "Lookahead(AdamW)", "SWA(SGD)", "Centralize(Adam)", "Lookahead(SWA(ScheduleFreeAdamW))" } do
      local options = class:find "SWA" and { lr = 0.05, swa_start = 3, swa_every = 2 } or { lr = 0.05 }
      local whole, part, again = train(make(class, options), 11), train(make(class, options), 6), make(class, options)
      again.model:load_state_dict(part.model:state_dict())
      again.optimizer:load_state_dict(part.optimizer:state_dict())
      train(again, 5)
      assert.equal(bits(whole), bits(again))
      whole.optimizer:with_eval(function()
        again.optimizer:with_eval(function() assert.equal(bits(whole), bits(again)) end)
      end)
    end
  end)
end)

describe("optim.check", function()
  for _, name in ipairs { "Lookahead(AdamW)", "SWA(SGD)", "Centralize(AdamW)" } do
    it("passes " .. name, function()
      local report = optim.check(optim.resolve(name))
      assert.is_true(report.ok, tostring(report))
    end)
  end
end)

describe("averages in a model", function()
  it("come and go with the running statistics, also after an error", function()
    for kind, given in pairs { ema = train(make("AdamW", { ema = 0.9 }), 5), swa = train(make("SWA(SGD)", { lr = 0.1 }), 5) } do
      local optimizer, before = given.optimizer, bits(given)
      local with = optimizer["with_" .. kind]
      fails("broken", with, optimizer, function()
        local loader = optlua.data.loader(optlua.data.tensors(small.x, small.y), { batch_size = 4 })
        optim.update_bn(loader, given.model)
        assert.not_equal(before, bits(given))
        error "broken"
      end)
      assert.equal(before, bits(given))
      assert.equal(before, bits(given))
      optimizer["swap_" .. kind](optimizer)
      assert.not_equal(before, bits(given))
      optimizer:run("swap_" .. kind)
      assert.equal(before, bits(given))
    end
  end)

  it("leave no trace, whatever is written meanwhile", function()
    for kind, given in pairs { ema = train(make("AdamW", { ema = 0.9 }), 5), swa = train(make("SWA(SGD)", { lr = 0.1 }), 5) } do
      local optimizer, before, average = given.optimizer, bits(given), nil
      local with = optimizer["with_" .. kind]
      with(optimizer, function()
        average = bits(given)
        if kind == "swa" then optimizer.groups[1].swa_start = 100 end
        optlua.no_grad(function()
          for _, p in given.model:named_parameters() do p:fill_(7) end
        end)
      end)
      assert.equal(before, bits(given))
      with(optimizer, function() assert.equal(average, bits(given)) end)
    end
  end)

  it("are the weights themselves before there are any", function()
    local given = train(make("SWA(SGD)", { lr = 0.1, swa_start = 6 }), 5)
    local before = bits(given)
    given.optimizer:with_swa(function() assert.equal(before, bits(given)) end)
    train(given, 1)
    before = bits(given)
    given.optimizer:with_swa(function() assert.equal(before, bits(given)) end)
    train(given, 1)
    before = bits(given)
    given.optimizer:with_swa(function() assert.not_equal(before, bits(given)) end)
  end)
end)

describe("an interrupt", function()
  -- Raises at the k-th instruction of a function, but not between a block that is left and what is done then; whether it came so far.
  local function interrupted(k, fn, ...)
    local raise
    function raise()
      if debug.getinfo(2, "S").source:find "closing%.lua" then return debug.sethook(raise, "", 1) end
      debug.sethook()
      error "interrupted!"
    end
    return not pcall(function(...)
      debug.sethook(raise, "", k)
      fn(...)
      debug.sethook()
    end, ...)
  end

  it("leaves everything as it was, wherever it comes", function()
    for kind, given in pairs {
      ema = { "AdamW", { ema = 0.9 } }, swa = { "SWA(SGD)", { lr = 0.1 } }, eval = { "ScheduleFreeSGD", { lr = 0.1 } },
    } do
      local net = { model = nn.Sequential { nn.Linear(3, 2), nn.BatchNorm1d(2) } }
      net.optimizer = optim.container(net.model, given[1], given[2])
      train(net, 3)
      local with, before, k = net.optimizer["with_" .. kind], bits(net), 1
      while interrupted(k, with, net.optimizer, function() end) do
        assert.equal(before, bits(net), ("%s, instruction %d"):format(kind, k))
        net.optimizer:state_dict() -- is not refused
        k = k + 3
      end
      assert.is_true(k > 100)
    end
  end)

  it("brings weights and forms back", function()
    local place = process.folder()
    process.write(place .. "/run.lua", [[
      local optlua = require "optlua"
      local model = optlua.nn.Linear(3, 2)
      local optimizer = optlua.optim.container(model, arg[1], { lr = 0.1, ema = arg[2] and 0.9 })
      for _ = 1, 3 do
        optimizer:zero_grad()
        model(optlua.randn { 4, 3 }):square():sum():backward()
        optimizer:step()
      end
      local before = model.weight:clone()
      local ok, message = pcall(optimizer.with_eval, optimizer, function()
        assert(not before:equal(model.weight))
        io.popen("kill -INT $PPID"):close()
        while true do end
      end)
      print(ok, message, before:equal(model.weight))
      optimizer:step()
    ]])
    for _, words in ipairs { "'SWA(SGD)'", "ScheduleFreeSGD", "AdamW ema" } do
      local result = process.run(place, "timeout 20 optlua run.lua " .. words)
      assert.matches("^false\t.*interrupted!\ttrue\n$", result.out, result.err)
    end
    process.remove(place)
  end)
end)

describe("update_bn", function()
  local function loader(n) return optlua.data.loader(optlua.data.tensors(small.x, small.y), { batch_size = n }) end

  it("averages the statistics of batches, of the model as it is in training", function()
    local model = nn.Sequential { nn.BatchNorm1d(3, { momentum = 0.3 }), nn.Linear(3, 4), nn.Unflatten(2, { 2, 2 }),
      nn.InstanceNorm1d(2, { track_running_stats = true }) }
    model:eval()
    local instance = model[4].running_mean:clone()
    local mean, var = optlua.zeros(3), optlua.zeros(3)
    for k = 0, 2 do
      local batch = small.x:narrow(1, 4 * k + 1, 4)
      mean, var = mean + batch:mean(1) / 3, var + batch:var(1) / 3
    end
    optim.update_bn(loader(4), model)
    assert.is_true(model[1].running_mean:allclose(mean))
    assert.is_true(model[1].running_var:allclose(var))
    assert.equal(3, model[1].num_batches_tracked:item())
    assert.equal(0.3, model[1].momentum)
    assert.is_false(model[1].training)
    assert.is_false(instance:equal(model[4].running_mean))
    optim.update_bn(loader(4), model, { batches = 1 })
    assert.is_true(model[1].running_mean:allclose(small.x:narrow(1, 1, 4):mean(1)))
  end)

  it("leaves the generator, and after an error the statistics, as they were", function()
    local model = nn.Sequential { nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 2) }
    train({ model = model, optimizer = optim.SGD(model) }, 2)
    local mean, rng = model[1].running_mean:clone(), optlua.get_rng_state()
    fails("batch_norm: training needs more than one value", optim.update_bn, loader(11), model)
    assert.is_true(mean:equal(model[1].running_mean))
    assert.equal(2, model[1].num_batches_tracked:item())
    optim.update_bn(loader(4), model)
    assert.same(rng, optlua.get_rng_state())
    fails("optim.update_bn: the loader gives no batch", optim.update_bn, function() end, model)
    assert.equal(3, model[1].num_batches_tracked:item())
    local batches = loader(6):batches()
    optim.update_bn(setmetatable({}, { __call = function() return batches() end }), model)
    assert.equal(2, model[1].num_batches_tracked:item())
    optim.update_bn(loader(4), nn.Linear(3, 2)) -- nothing to compute
    fails("model: a module expected, got a nil", optim.update_bn, loader(4))
    fails("a loader expected, or a function that gives batches, got a? ?number", optim.update_bn, 3, model)
    fails("batches: expected an integer at least 1, got 0", optim.update_bn, loader(4), model, { batches = 0 })
  end)
end)
