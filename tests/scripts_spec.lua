-- The scripts that train whole models, shortened: each runs as users run it, prints what it promises, and learns.
local process = require "process"

--- Runs a script; it must succeed and say nothing on stderr. Returns what it prints.
local function run(command, folder)
  local result = process.run(folder or ".", "optlua " .. command)
  assert.equal("", result.err)
  assert.equal(0, result.code)
  return (result.out:gsub("\n$", ""))
end

--- All numbers that a pattern captures, in order.
local function numbers(text, pattern)
  local list = {}
  for number in text:gmatch(pattern) do list[#list + 1] = tonumber(number) end
  return list
end

--- Calls fn with a folder that is gone afterwards.
local function with_folder(fn)
  local folder = process.folder()
  local ok, message = pcall(fn, folder)
  process.remove(folder)
  if not ok then error(message, 0) end
end

--- An IDX file of bytes.
local function idx(sizes, bytes)
  return ("\0\0\8" .. string.char(#sizes)) .. (">" .. ("I4"):rep(#sizes)):pack(table.unpack(sizes)) .. bytes
end

--- Images like those of Fashion-MNIST, n of them, whose classes come in turn: class k is bright in a square at
--- a place of its own, all else is noise.
local function write_images(folder, part, n)
  local images, labels = {}, {}
  for i = 1, n do
    local class = i % 10
    local top, left = 3 + 14 * (class // 5), 1 + 5 * (class % 5)
    for y = 0, 27 do
      local row = {}
      for x = 0, 27 do
        local bright = y >= top and y < top + 8 and x >= left and x < left + 5
        row[x + 1] = math.random(bright and 120 or 0, bright and 255 or 120)
      end
      images[#images + 1] = string.char(table.unpack(row))
    end
    labels[i] = string.char(class)
  end
  process.write(("%s/%s-images-idx3-ubyte"):format(folder, part), idx({ n, 28, 28 }, table.concat(images)))
  process.write(("%s/%s-labels-idx1-ubyte"):format(folder, part), idx({ n }, table.concat(labels)))
end

local function with_images(fn)
  math.randomseed(1)
  with_folder(function(folder)
    write_images(folder, "train", 600)
    write_images(folder, "t10k", 200)
    fn(folder)
  end)
end

local function exists(path)
  local file = io.open(path)
  return file and file:close()
end

describe("scripts/fashion.lua", function()
  it("names what is in small images, class by class, and saves what it has learnt", function()
    with_images(function(folder)
      local out = run(("scripts/fashion.lua --root %s --epochs 2 --warmup 5 --save %s/model.safetensors"):format(folder, folder))
      local accuracies = numbers(out, "test accuracy ([%d.]+)")
      assert.equal(2, #accuracies)
      assert.is_true(accuracies[2] > 0.9)
      local classes = numbers(out, "\n%u[%a/ -]+ +([%d.]+)")
      assert.equal(10, #classes)
      local sum = 0
      for _, share in ipairs(classes) do sum = sum + share end
      assert.near(accuracies[2], sum / 10, 1e-3) -- as many images a class
      assert.is_true(#require("optlua").load(folder .. "/model.safetensors")["0.weight"] == 16)
    end)
  end)

  it("learns from Debian's files", function()
    if not exists "/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz" then
      pending "dataset-fashion-mnist is not installed"
    end
    local out = run "scripts/fashion.lua --epochs 1 --items 3200 --warmup 10"
    assert.is_true(numbers(out, "test accuracy ([%d.]+)")[1] > 0.7)
  end)

  it("says where the files are to be had", function()
    local result = process.run(".", "optlua scripts/fashion.lua --root /nowhere")
    assert.matches("apt%-get install dataset%-fashion%-mnist", result.err)
  end)
end)

describe("scripts/transfer.lua", function()
  it("trains the head of a frozen body, then all", function()
    with_images(function(folder)
      local out = run(("scripts/transfer.lua --root %s --items 300 --few 40 --epochs 3"):format(folder))
      local accuracies = numbers(out, "accuracy ([%d.]+)")
      assert.equal(4, #accuracies)
      assert.is_true(accuracies[1] > 0.9)
      assert.is_true(accuracies[3] > 0.5)
      assert.is_true(accuracies[4] > 0.8)
      local kept = numbers(out, "optimizer +(%d+)")
      assert.equal(2 * 5 * 289, kept[3]) -- what is frozen has no state
      assert.equal(kept[1], kept[4])
    end)
  end)
end)

describe("scripts/char_gpt.lua", function()
  local small = "scripts/char_gpt.lua --width 32 --heads 2 --layers 1 --context 16 "

  it("learns a text by heart, goes on with it, and saves what it has learnt", function()
    with_folder(function(folder)
      process.write(folder .. "/text", ("The cat sat on a mat. The dog lay by a log. "):rep(100))
      local out = run(small .. ("--text %s/text --steps 150 --lr 0.01 --tokens 40 --save %s/gpt"):format(folder, folder))
      local losses = numbers(out, "  loss ([%d.]+)")
      assert.equal(3, #losses)
      assert.is_true(losses[3] < losses[1] / 3)
      assert.is_true(numbers(out, "validation loss ([%d.]+)")[1] < 0.3)
      assert.matches("The [cd][ao][tg] ", out:match "[^\n]*$")
      assert.equal(44, #out:match "[^\n]*$")
      local model = require("optlua").load(folder .. "/gpt")
      assert.same({ 32 }, model["blocks.0.ln1.weight"].shape)
      process.write(folder .. "/other", ("The cat sat on a mat. ä\n"):rep(100)) -- a character that was not learnt, others are missing
      local again = run(small .. ("--text %s/other --steps 0 --tokens 40 --load %s/gpt"):format(folder, folder))
      assert.matches("The [cd][ao][tg] ", again:match "[^\n]*$")
    end)
  end)

  it("takes the licences of the machine when it is given nothing", function()
    if not exists "/usr/share/common-licenses/GPL-3" then pending "this machine has no licence texts" end
    assert.matches("validation loss [%d.]+ after 3 steps", run(small .. "--steps 3 --tokens 5"))
  end)
end)

describe("scripts/sequence.lua", function()
  it("learns to tell balanced brackets, in strings longer than those it has seen", function()
    local out = run "scripts/sequence.lua --items 4000 --longest 16 --epochs 4 --lr 0.01"
    local accuracies, longer = numbers(out, "  accuracy ([%d.]+)"), numbers(out, "longer strings ([%d.]+)")
    assert.equal(4, #accuracies)
    assert.is_true(accuracies[4] > 0.9)
    assert.is_true(longer[4] > 0.7)
    assert.matches("%(%(%)%(%(%)%)%) +balanced\n", out)
    assert.matches("%(%(%) +not balanced$", out)
  end)
end)

describe("scripts/reinforce.lua", function()
  it("balances the pole", function()
    local out = run "scripts/reinforce.lua --goal 150"
    local means = numbers(out, "last 100 +([%d.]+)")
    assert.is_true(means[1] < 80)
    assert.is_true(means[#means] >= 150)
    assert.is_true(numbers(out, "without dice ([%d.]+)")[1] >= 150)
  end)

  it("is the same on every run", function()
    local command = "scripts/reinforce.lua --episodes 20"
    assert.equal(run(command), run(command))
  end)
end)

describe("scripts/distill.lua", function()
  it("teaches a student a digit that it has never seen", function()
    local out = run "scripts/distill.lua --epochs 16 --teacher 128"
    local accuracies, on_digit = numbers(out, "accuracy ([%d.]+)"), numbers(out, "3s ([%d.]+)")
    assert.equal(3, #accuracies)
    assert.is_true(accuracies[1] > 0.93)
    assert.equal(0, on_digit[2])
    assert.is_true(on_digit[3] > 0.5)
    assert.is_true(accuracies[3] > accuracies[2])
    local sizes = numbers(out, "(%d+) parameters")
    assert.is_true(sizes[1] > 5 * sizes[3])
  end)
end)

describe("options of the scripts", function()
  for _, name in ipairs { "fashion", "transfer", "char_gpt", "sequence", "reinforce", "distill" } do
    it("of " .. name .. " are checked, at the script's line", function()
      local result = process.run(".", ("optlua scripts/%s.lua --sead 3"):format(name))
      assert.equal(1, result.code)
      assert.matches(('scripts/%s.lua:%%d+: .*unknown option "sead" %%(did you mean "seed"%%?%%)'):format(name), result.err)
    end)
  end
end)
