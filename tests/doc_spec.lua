-- The documentation: everything public has an entry, and its examples run.
local doc = require "optlua.doc"
local optlua = require "optlua"
local examples = require "examples"
local files = require "files"
local process = require "process"

--- What doc.print prints.
local function printed(name)
  local lines, real = {}, print
  _G.print = function(text) lines[#lines + 1] = text end
  local ok, message = pcall(doc.print, name)
  _G.print = real
  return ok and table.concat(lines, "\n") or error(message, 0)
end

describe("the documentation", function()
  it("explains every public name", function()
    local entries = doc.entries()
    assert.is_true(#entries > 200)
    for _, entry in ipairs(entries) do
      assert.is_true(#entry.text > 0, entry.name .. " has no comment")
      assert.is_string(entry.page)
    end
  end)

  for _, entry in ipairs(doc.entries()) do
    if entry.example and (entry.page ~= "tensors" or entry.section == "Fields and keys") then -- registry_spec runs the others
      it("has an example for " .. entry.name .. " that prints what it says", function()
        examples.check(entry.example)
      end)
    end
  end

  it("finds ops, layers, optimizers and functions by name", function()
    assert.matches("^tensor:relu%(%)\n", printed "relu")
    assert.matches("^nn.Linear%(in_features, out_features, %[bias%], %[dtype%]%).*bias: default true", printed "Linear")
    assert.matches("weight_decay: default 0.01, at least 0", printed "AdamW")
    assert.matches("Decoupled weight decay", printed "optim.AdamW")
    assert.matches("data.loader%(dataset, opts%)", printed "data.loader")
  end)

  it("explains the language of update rules, and each of its operations", function()
    local text = printed "define"
    for _, word in ipairs { "choices", "positive", "group_add", "h%.step", "write\n? *c1%*c2%*x", "accepts", "before%(group, h%)" } do
      assert.matches(word, text)
    end
    for _, word in ipairs { "sqrt(x)", "where(x, y, z)", "lerp(x, y, w)", "sum(x, [dim])", "group_add(name, x)" } do
      local found = printed("optim." .. word:match "%w[%w_]*")
      assert.equal("optim." .. word, found:match "^[^\n]*")
    end
    for name in pairs(require("optlua.core").hidden.optim.operations) do
      assert.is_truthy(text:find(("\n    optim.%s("):format(name), 1, true), name)
    end
    assert.matches("\n    optim.amax%(x, %[dim%]%): the largest element over", text)
    assert.matches("^optim.max%(x, y%)\n\n  the larger of x and y, elementwise; that of one tensor: optim.amax. For", printed "optim.max")
    assert.matches("that of one tensor: optim.amin", printed "optim.min")
    assert.matches("^Class:program%(opts%)", printed "program")
  end)

  it("explains methods of objects, fields and keys", function()
    for name, line in pairs {
      ["loader:batches"] = "loader:batches()", get_last_lr = "scheduler:get_last_lr()", ["progress:update"] = "progress:update(steps, note)",
      groups = "optimizer.groups", requires_grad = "tensor.requires_grad", T = "tensor.T",
      ["nn.functional.softmax"] = "nn.functional.softmax(input, dim)", ["ModuleList:append"] = "ModuleList:append(item)",
      indexing = "t[i], t[{ … }], t[index], t[mask]; t[…] = value",
    } do assert.equal(line, printed(name):match "^[^\n]*") end
    assert.matches("optlua.func {", printed "func", 1, true)
    assert.matches("^optlua.where.*\n\noptim.where%(x, y, z%)", printed "where")
    assert.has_error(function() printed "options" end)
  end)

  it("explains options of containers and groups, keys and switches of a spec, and commands", function()
    for name, pattern in pairs {
      state_dtype = "^optim.container%(model, …, { state_dtype = … }%)\n.*8bit%-all.*%-%-optimizer.state_dtype", max_norm = "at least 0, gradients with",
      ema = "decay of an average", in_backward = "as soon as its gradient", unfreeze_at = "An option of a group of a container",
      keep_best = "^config = { keep_best = … }, or %-%-keep_best=…\n.*default false", surgery = "^optlua SCRIPT %-%-surgery FILE\n.*A switch",
      resume = "%-%-resume %[PATH%]", ckpt = "^optlua ckpt\n.*verify", ["groups.muon_adamw"] = "^optim.groups.muon_adamw%(model, opts%)",
      ["optim.mean"] = "the mean over the tensor, or over a dimension", Muon = "ns_steps: default 5[^\n]*, how often it is applied",
      AdamW = "betas: default [^\n]*, decays of running averages", ["optim.scheduler"] = '"betas%[1%]", optlua.schedule.value',
    } do assert.matches(pattern, printed(name)) end
    local text = printed "LBFGS"
    assert.is_nil(text:find("\n *lr: .*\n *lr: "))
    assert.matches("max_iter: default 20, at least 1, directions in a step", text)
  end)

  it("says what every hyperparameter of its classes means", function()
    for _, name in ipairs(optlua.optim.list()) do
      for hyper, option in pairs(optlua.optim.resolve(name).hyper) do assert.is_string(option.doc, name .. "." .. hyper) end
    end
  end)

  it("explains parts of the library, specs and every kind of schedules", function()
    for name, pattern in pairs {
      optim = "^optlua.optim\n\n  Optimizers, which are rules.*container%s+define", ["optlua.nn"] = "BatchNorm1d.*Linear",
      schedule = "^optlua.schedule\n.*pure function.*warmup_stable_decay", losses = "cross_entropy", testing = "loss_falls",
      ["optim.groups"] = "layerwise_decay", checkpoint = "^optlua.checkpoint\n.*plain loop.*latest list load", state = "^state\n.*\n +training_steps: ",
      optimizers = "^config.optimizers\n.*configure_optimizers", lr_schedulers = "^config.lr_schedulers\n", ["checkpoint.save"] = "model%?: nn.Module",
      spec = "^optlua.spec%(definition%)", config = "^optlua.config%(given", arg = "^optlua.arg%(",
      ["spec:extend"] = "^spec:extend%(definition%)", ["state:log"] = "^state:log%(name, value%)", no_decay = "^optim.groups.no_decay",
    } do assert.matches(pattern, printed(name)) end
    local schedule, texts = optlua.schedule, {}
    for _, entry in ipairs(doc.entries()) do texts[entry.name] = doc.text(entry) end
    for _, name in ipairs(schedule.list()) do
      local text = texts["schedule." .. name]
      assert.not_matches("that a script registered", text)
      for arg in pairs(schedule.resolve(name).args) do assert.matches("\n  *" .. arg .. ": ", text) end
    end
  end)

  it("lists what there is, when no name is given", function()
    local text = printed()
    for _, part in ipairs { "nn", "nn.functional", "nn.init", "optim.groups", "data.transforms", "schedule", "testing" } do
      assert.matches("\n  " .. part:gsub("%p", "%%%0") .. " +%u", text)
    end
    assert.matches("^optlua.nn.functional\n.*relu", printed "nn.functional")
    assert.matches("^optlua.nn.init\n.*kaiming_uniform_", printed "nn.init")
    assert.matches("functional.….*utils.…", printed "nn")
  end)

  it("says what layers take, and what they are called with where that is not one tensor", function()
    assert.matches("num_layers: default 1.*bidirectional: default false", printed "nn.LSTM")
    assert.matches("eps: default 1e%-05.*affine: default true", printed "nn.BatchNorm2d")
    assert.matches("called with:\n *src .*src_key_padding_mask.*is_causal", printed "nn.TransformerEncoder")
    assert.matches("called with:\n *query .*need_weights", printed "nn.MultiheadAttention")
    assert.not_matches("called with", printed "nn.Linear")
  end)

  it("takes methods as they are thought of, and classes", function()
    for _, name in ipairs { "Module.save", "model:save", "nn.Module:save", "module.save" } do
      assert.equal(printed "module:save", printed(name))
    end
    for _, name in ipairs { "data.digits", "nn.Linear", "optim.AdamW", "schedule.cosine", "optim.lr_scheduler", "checkpoint.load" } do
      assert.equal(printed(name), printed("optlua." .. name))
    end
    assert.equal(printed "nn.Linear", printed(optlua.nn.Linear))
    assert.equal(printed "AdamW", printed(optlua.optim.AdamW))
  end)

  it("does not insist on capital letters", function()
    assert.equal(printed "AdamW", printed "adamw")
    assert.equal(printed "nn.Linear", printed "NN.linear")
  end)

  it("is written as pages, whose sections have names", function()
    files.with_folder(function(folder)
      assert.equal(folder .. ": 10 pages\n", process.run(".", "optlua scripts/dev/docs.lua " .. folder).out)
      for _, page in ipairs { "optim", "schedule", "tensors", "library" } do
        assert.not_matches("\n## nil", files.read(("%s/%s.md"):format(folder, page)))
      end
      assert.matches("^# schedule\n\n<a.*### optlua.schedule\n.*\n## Schedules\n.*### schedule.cosine", files.read(folder .. "/schedule.md"))
    end)
  end)

  it("names the nearest when there is none", function()
    assert.has_error(function() printed "AdmW" end, 'doc: nothing is called "AdmW" (did you mean "AdamW"?)')
    assert.has_error(function() printed(7) end, 'help: a name expected, as in help "AdamW"')
  end)
end)
