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

  it("says what differs", function()
    local same = run "diff run run"
    assert.same({ 0, "they are the same\n" }, { same.code, same.out })
    local other = run "diff run/checkpoints/step-1 run"
    assert.equal(1, other.code)
    assert.matches("extra.step: 1 and 2", other.out)
    assert.matches("model.weight: differ by up to", other.out)
    assert.not_matches("weight_decay", other.out)
  end)

  it("takes the weights out", function()
    assert.equal(0, run("convert run w.safetensors").code)
    local net = nn.Linear(2, 1)
    net:load(place .. "/w.safetensors")
    assert.equal(2, run("convert run w.pt").code)
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
