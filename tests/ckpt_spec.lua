-- `optlua ckpt`: what is in a checkpoint, whether it is whole, what differs, its weights.
local optlua = require "optlua"
local process = require "process"
local nn, optim = optlua.nn, optlua.optim

local place
before_each(function()
  place = process.folder()
  local model = nn.Linear(2, 1)
  local optimizer = optim.AdamW(model)
  for k = 1, 2 do
    model(optlua.ones { 1, 2 }):sum():backward()
    optimizer:step()
    optlua.checkpoint.save(("%s/run/checkpoints/step-%d"):format(place, k), { model = model, optimizer = optimizer, extra = { step = k } })
  end
end)
after_each(function() process.remove(place) end)

local function run(words) return process.run(place, "optlua ckpt " .. words) end

describe("optlua ckpt", function()
  it("shows a checkpoint, or the last one of a run", function()
    local shown = run "show run"
    assert.equal(0, shown.code, shown.err)
    assert.matches("run/checkpoints/step%-2: format 2, %d+%-", shown.out)
    assert.matches("written by blas .*, optlua [%d.]+, threads %d", shown.out)
    assert.matches("model.weight  float32 %(1, 2%)", shown.out)
    assert.matches("optimizer.state.weight.exp_avg  float32 %(1, 2%)", shown.out)
    assert.matches("extra.step = 2", shown.out)
    assert.matches("extra.step = 1", run("show run/checkpoints/step-1").out)
  end)

  it("verifies the files", function()
    assert.equal(0, run("verify run").code)
    process.run(place, "printf x >>run/checkpoints/step-2/weights.safetensors")
    local bad = run "verify run/checkpoints/step-2"
    assert.equal(1, bad.code)
    assert.matches("weights.safetensors: %d+ bytes, %d+ were written", bad.out)
    for _, path in ipairs { "run", "run/checkpoints/" } do
      bad = run("verify " .. path)
      assert.equal(1, bad.code)
      assert.matches("step%-1: all files are as they were written\n.*step%-2/weights.safetensors: %d+ bytes", bad.out)
    end
    assert.matches("nowhere: there is no checkpoint", run("verify nowhere").err)
    local passed_over = run "show run"
    assert.matches("step%-1: format", passed_over.out)
    assert.matches("step%-2 is damaged, and is passed over", passed_over.err)
  end)

  it("looks at all that is named, or refuses it", function()
    local run_and_one = run "verify run run/checkpoints/step-1"
    assert.equal(3, select(2, run_and_one.out:gsub("as they were written", "")))
    assert.equal(1, run("verify run nowhere").code)
    assert.equal(2, select(2, run("show run run/checkpoints/step-1").out:gsub(": format 2", "")))
    assert.equal(2, run("diff run run run").code)
    assert.equal(2, run("convert run w.safetensors more").code)
  end)

  it("takes the folder of a plain loop for what it is", function()
    process.run(place, "mv run/checkpoints plain")
    assert.matches("plain/step%-2: format", run("show plain/").out)
    assert.equal(2, select(2, run("verify plain").out:gsub("as they were written", "")))
    assert.matches("extra.step: 2 and 1", run("diff plain plain/step-1").out)
  end)

  it("says what differs in a config key by key, and of a schedule that it does", function()
    local function save(name, config, fingerprint)
      optlua.checkpoint.save(place .. name, { extra = { config = config, fingerprint = fingerprint } })
    end
    save("/a", "return { epochs = 1, optimizer = { class = \"SGD\", lr = 0.5 } }\n", { 1.5, 2.5 })
    save("/b", "return { epochs = 1, optimizer = { class = \"SGD\", lr = 0.25 } }\n", { 1.5, 3.5 })
    assert.equal("config.optimizer.lr: 0.5 and 0.25\nextra.fingerprint: another schedule\n", run("diff a b").out)
  end)

  it("says how it is used, and nothing where nobody reads it", function()
    assert.matches("convert PATH FILE .* without averages", run("--help").out)
    local docs = process.run(place, "optlua --doc SGD LAMB").out
    assert.matches("optim.SGD.*optim.LAMB", docs)
    local closed = process.run(place, "{ optlua ckpt show run; echo $? >status; } | true; optlua --doc define | true; cat status")
    assert.equal("", closed.err)
  end)

  it("says what differs", function()
    local same = run "diff run run"
    assert.same({ 0, "they are the same\n" }, { same.code, same.out })
    local other = run "diff run/checkpoints/step-1 run"
    assert.equal(1, other.code)
    assert.matches("extra.step: 1 and 2", other.out)
    assert.matches("model.weight: differ by up to", other.out)
    assert.not_matches("weight_decay", other.out)
  end)

  it("finds tensors the same by what they hold: NaN, and integers that no float tells apart", function()
    local class = nn.class "Held"
    function class:init(value, dtype) self:register_buffer("n", optlua.tensor(value, { dtype = dtype })) end -- luacheck: ignore
    local function diff(dtype, a, b)
      optlua.checkpoint.save(place .. "/a", { model = class(a, dtype) })
      optlua.checkpoint.save(place .. "/b", { model = class(b, dtype) })
      return run("diff a b").out:match "model.n: ([^\n]*)"
    end
    assert.equal("differ in 1 of 2 elements", diff("int64", { 1 << 60, 1 }, { (1 << 60) + 1, 1 }))
    assert.equal("differ by up to 2", diff("int64", { 5, 1 }, { 3, 1 }))
    assert.is_nil(diff("float32", { 0 / 0, 1 }, { 0 / 0, 1 }))
    assert.is_nil(diff("float32", { math.huge, 1 }, { math.huge, 1 }))
    assert.equal("differ in 1 of 2 elements", diff("float32", { 0 / 0, 1 }, { 2, 1 }))
    assert.equal("differ by up to 1", diff("float32", { 0 / 0, 1 }, { 0 / 0, 2 }))
    assert.equal("differ by up to 1", diff("uint8", { 0, 1 }, { 0, 2 }))
    assert.equal("differ by up to 1", diff("bfloat16", { 0, 1 }, { 0, 2 }))
  end)

  it("takes the weights out", function()
    assert.equal(0, run("convert run w.safetensors").code)
    local net = nn.Linear(2, 1)
    net:load(place .. "/w.safetensors")
    assert.equal(2, run("convert run w.pt").code)
    assert.equal("", run("convert run w.safetensors").err)
    local averaged = optim.container(net, "AdamW", { ema = 0.5 })
    net(optlua.ones { 1, 2 }):sum():backward()
    averaged:step()
    optlua.checkpoint.save(place .. "/ema", { model = net, optimizer = averaged })
    assert.matches("its averages of the weights are not in there", run("convert ema w.safetensors").err)
    process.run(place, "printf x | dd of=run/checkpoints/step-2/weights.safetensors bs=1 seek=120 conv=notrunc")
    local bad = run "convert run/checkpoints/step-2 bad.safetensors"
    assert.equal(1, bad.code)
    assert.matches("step%-2/weights.safetensors: the checksum is another one", bad.err)
    assert.equal("", process.run(place, "ls bad.safetensors").out)
  end)

  it("refuses what it does not know", function()
    local wrong = run "shwo run"
    assert.equal(2, wrong.code)
    assert.matches('unknown command "shwo" %(did you mean "show"%?%)', wrong.err)
    assert.matches("nowhere: there is no checkpoint", run("show nowhere").err)
    assert.matches("the path of a checkpoint or of a run is missing", run("show").err)
    assert.equal(2, run("").code)
  end)
end)
