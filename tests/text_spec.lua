-- Text as data: vocabularies, windows, generation.
local optlua = require "optlua"
local files = require "files"
local data, nn = optlua.data, optlua.nn

local fails = require("fails").matching

--- Calls fn with a file for each text, and data.text of them.
local function texts(list, opts, fn)
  files.with_folder(function(folder)
    local paths = {}
    for k, text in ipairs(list) do
      paths[k] = folder .. "/" .. k
      files.write(paths[k], text)
    end
    fn(data.text(paths, opts))
  end)
end

local function fails_with(list, opts, message) fails(message, texts, list, opts, function() end) end

describe("a vocabulary", function()
  it("numbers the characters of a text in order", function()
    local v = data.vocabulary "häagen, häagen → 𝄞"
    assert.same({ " ", ",", "a", "e", "g", "h", "n", "ä", "→", "𝄞" }, v.characters)
    assert.equal(10, #v)
    local ids = v:encode "→𝄞hä"
    assert.same({ "int64", { 8, 9, 5, 7 } }, { ids.dtype, ids:totable() })
    assert.equal("→𝄞hä", v:decode(ids))
    assert.equal("→𝄞hä", v:decode { 8, 9, 5, 7 })
    assert.equal("hä", v:decode(optlua.tensor({ { 5 }, { 7 } }, "int64")))
    assert.equal("𝄞", v:decode(9))
    assert.equal("", v:decode(v:encode ""))
    assert.equal(0, #data.vocabulary "")
    local again = data.vocabulary(table.concat(v.characters))
    assert.same(v.characters, again.characters)
  end)

  it("names what it lacks, or replaces it", function()
    local v = data.vocabulary "abc"
    fails('^tests/text_spec.lua:%d+: encode: "é" %(U%+00E9%), character 3, is not in the vocabulary', function()
      local ids = v:encode "abéd"
      return ids
    end)
    fails('"A" %(U%+0041%), character 1', v.encode, v, "A")
    fails('"a" %(U%+0061%), character 1', function() data.vocabulary "":encode "a" end)
    fails("decode: number 2: 0 to 2 expected, got 3", v.decode, v, { 1, 3 })
    fails("got %-1", v.decode, v, -1)
    fails("got 0.5", v.decode, v, { 0.5 })
    fails("text: expected a string", v.encode, v, 7)
    local q = data.vocabulary("abc", { unknown = "?" })
    assert.same({ 4, "a??c" }, { #q, q:decode(q:encode "aéAc") })
    assert.equal("b", data.vocabulary("abc", { unknown = "b" }):decode { 1 })
    fails("one character expected", data.vocabulary, "abc", { unknown = "??" })
    fails("one character expected", data.vocabulary, "abc", { unknown = "\xff" })
    fails("every byte is known", data.vocabulary, "abc", { level = "byte", unknown = "?" })
  end)

  it("comes back from a plain table", function()
    for _, one in ipairs {
      data.vocabulary "größer", data.vocabulary("abc", { unknown = "?" }), data.vocabulary("any", { level = "byte" }), data.vocabulary "",
    } do
      local again = data.vocabulary(one:totable())
      assert.same(one:totable(), again:totable())
      assert.same({ one.level, one.characters, one.unknown }, { again.level, again.characters, again.unknown })
    end
    assert.equal("a?", (data.vocabulary(data.vocabulary("abc", { unknown = "?" }):totable()):decode { 1, 0 }))
    fails('unknown option "charakters"', data.vocabulary, { charakters = {} })
    fails("characters%[1%]: a text expected, got a number", data.vocabulary, { characters = { 1 } })
  end)

  it("takes any file as bytes", function()
    local v = data.vocabulary("", { level = "byte" })
    assert.same({ 256, { 0, 255, 195, 164 } }, { #v, v:encode "\0\xffä":totable() })
    assert.equal("\0\xffä", v:decode(v:encode "\0\xffä"))
  end)

  it("refuses what is no UTF-8, with its place", function()
    for _, bad in ipairs {
      "\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
      "\xff", "\xc3", "\xe2\x86", "\xf0\x9d\x84", "\xc3\x28",
    } do
      fails("line 2, byte 3: 0x%x%x begins no character of UTF%-8", data.vocabulary, "ä\nab" .. bad)
    end
    assert.equal(5, #data.vocabulary "\0\x7f\u{7ff}\u{d7ff}\u{10ffff}")
  end)
end)

describe("data.text", function()
  it("gives windows and the same one character later", function()
    texts({ "abcdefgh", "ij" }, { context = 3, validation = 0.4 }, function(train, validation)
      assert.same({ 3, 10, 6, 4 }, { #train, #train.vocabulary, #train.tokens, #validation.tokens })
      assert.equal(1, #validation)
      assert.equal(train.vocabulary, validation.vocabulary)
      local x, y = train.get(2)
      assert.same({ "bcd", "cde", "int64" }, { train.vocabulary:decode(x), train.vocabulary:decode(y), x.dtype })
      local xs, ys = train.batch(optlua.tensor({ 2, 0 }, "int64"))
      assert.same({ { { 2, 3, 4 }, { 0, 1, 2 } }, { { 3, 4, 5 }, { 1, 2, 3 } } }, { xs:totable(), ys:totable() })
      assert.equal("hij", train.vocabulary:decode((select(2, validation.get(1)))))
      fails("a position from 1 to 3 expected, got 4", train.get, 4)
    end)
  end)

  it("gives batches that view takes, as PyTorch's are", function()
    files.with_bytes("hello world", function(path)
      local loader = data.loader(data.text(path, { context = 3, validation = 0 }), { batch_size = 2 })
      local x, y = loader:batches()()
      assert.same({ 6 }, x:view(-1).shape)
      assert.same({ 6 }, y:view(-1).shape)
    end)
  end)

  it("can lay windows apart, leave out validation, and take another's vocabulary", function()
    texts({ "abcdefgh" }, { context = 2, validation = 0, stride = 3 }, function(train, validation)
      assert.is_nil(validation)
      assert.equal(2, #train)
      assert.equal("ef", train.vocabulary:decode((select(2, train.get(2)))))
    end)
    local v = data.vocabulary("abc", { unknown = "?" })
    texts({ "cabx" }, { context = 2, validation = 0, vocabulary = v }, function(train)
      assert.equal("ab?", train.vocabulary:decode(train.tokens:narrow(1, 2, 3)))
    end)
    fails_with({ "cabx" }, { context = 2, validation = 0, vocabulary = data.vocabulary "abc" }, 'data.text: "x" .* character 4')
    texts({ "\xff\0abc" }, { context = 2, validation = 0, level = "byte" }, function(train)
      assert.same({ { 255, 0 }, 256 }, { (train.get(1)):totable(), #train.vocabulary })
    end)
  end)

  it("keeps more than 256 different characters apart", function()
    local list = {}
    for code = 0x4e00, 0x4e00 + 299 do list[#list + 1] = utf8.char(code) end
    texts({ table.concat(list) }, { context = 299, validation = 0 }, function(train)
      assert.same({ 300, 299 }, { #train.vocabulary, (select(2, train.get(1)))[-1]:item() })
    end)
  end)

  it("goes through windows in an order of the loader's seed", function()
    texts({ ("abcdefghij"):rep(5) }, { context = 4, validation = 0 }, function(train)
      local function first(seed)
        local x, y = data.loader(train, { batch_size = 8, shuffle = true, seed = seed }):batches()()
        assert.same({ 8, 4 }, x.shape)
        assert.is_true(x:narrow(2, 2, 3):equal(y:narrow(2, 1, 3)))
        return x:totable()
      end
      assert.same(first(1), first(1))
      assert.not_same(first(1), first(2))
    end)
  end)

  it("refuses texts that are too short, files that are not there, and nonsense", function()
    fails_with({ "abc" }, { context = 3, validation = 0 }, "^tests/text_spec.lua:%d+: data.text: the text for training has 3 characters; "
      .. "with a context of 3 it needs at least 4")
    fails_with({ "abcdefghij" }, { context = 3 }, "the text for validation has 1 characters")
    fails_with({ "abc\xff" }, { context = 1 }, "/1: line 1, byte 4: 0xff begins no character of UTF%-8")
    fails_with({}, { context = 1 }, "at least one file expected")
    fails("no/such: cannot be opened: No such file", data.text, "no/such", { context = 1 })
    fails("context: is required", data.text, "x")
    fails('unknown option "contxt" %(did you mean "context"', data.text, "x", { contxt = 1, context = 2 })
    fails("validation: expected a number at least 0 and below 1, got 1", data.text, "x", { context = 1, validation = 1 })
    fails("paths: expected a list, got 7", data.text, 7, { context = 1 })
    fails("paths%[1%]: expected a string, got 7", data.text, { 7 }, { context = 1 })
    fails("vocabulary: one of data.vocabulary", data.text, "x", { context = 1, vocabulary = {} })
  end)

  it("reads the texts of this machine", function()
    local train, validation = data.text(data.system_texts(), { context = 64, validation = 0.1 })
    assert.is_true(#train > 10000 and #validation > 100 and #train.vocabulary > 60)
  end)

  it("survives spoilt files and allocations that fail", function()
    files.fuzz(("aä→𝄞"):rep(8), 2000, function(path) data.text(path, { context = 4, validation = 0 }) end)
    files.with_bytes("hello", function(path)
      assert.is_true(files.fail_allocations(function() data.text(path, { context = 2, validation = 0 }) end) > 3)
      assert.is_true(files.fail_allocations(data.system_texts) > 3)
    end)
  end)
end)

-- A model that says what follows: the token after each is the next one, with the rest at `other`.
local Next = nn.class "Next"
function Next:init(size, other)
  self.drop = nn.Dropout(0.5)
  self.weight = nn.Parameter(optlua.full({ size, size }, other or -30))
  optlua.no_grad(function()
    for k = 1, size do self.weight[{ k, k % size + 1 }] = 0 end
  end)
end
function Next:forward(ids)
  self.seen = math.max(rawget(self, "seen") or 0, ids.shape[2])
  assert(not self.training and not optlua.is_grad_enabled())
  return self.drop(nn.functional.embedding(ids, self.weight))
end

describe("data.generate", function()
  local v = data.vocabulary "abcdef"

  it("goes on with the prompt, and restores the model's modes", function()
    local model = Next(6)
    model.drop:eval()
    assert.equal("bcdefab", data.generate(model, v, { prompt = "bc", tokens = 5, temperature = 0.5, context = 3 }))
    assert.same({ true, false, 3 }, { model.training, model.drop.training, model.seen })
    assert.equal("fab", data.generate(model, v, { prompt = "f", tokens = 2, temperature = 0 }))
    assert.equal("f", data.generate(model, v, { prompt = "f", tokens = 0 }))
    assert.equal(100 + 1, #data.generate(model, v, { prompt = "a" }))
    assert.equal(101, model.seen - 1 + 2)
  end)

  it("draws from a seed without touching the generator, else from the generator", function()
    local model = Next(6, 0)
    local function run(seed) return data.generate(model, v, { prompt = "a", tokens = 40, seed = seed }) end
    optlua.manual_seed(3)
    local expected = optlua.rand(1):item()
    optlua.manual_seed(3)
    assert.equal(run(1), run(1))
    assert.not_equal(run(1), run(2))
    assert.equal(expected, optlua.rand(1):item())
    optlua.manual_seed(3)
    local one = run()
    assert.not_equal(one, run())
    optlua.manual_seed(3)
    assert.equal(one, run())
  end)

  it("draws from the likeliest only where it is told to", function()
    local model = Next(6, -1) -- the next one has probability 0.352, the others 0.130 each
    for _, opts in ipairs { { top_k = 1 }, { top_p = 0.35 }, { top_p = 0.01 }, { temperature = 0 }, { top_k = 3, top_p = 0.3 } } do
      opts.prompt, opts.tokens = "a", 30
      assert.equal(("abcdef"):rep(6):sub(1, 31), data.generate(model, v, opts))
    end
    local tie = Next(2, 0)
    local two = data.vocabulary "xy"
    for _, opts in ipairs { { top_k = 2 }, { top_k = 9 }, { top_p = 1 }, { top_p = 0.51 }, {} } do
      opts.prompt, opts.tokens, opts.seed = "x", 30, 1
      local text = data.generate(tie, two, opts)
      assert.is_truthy(text:find("xx", 1, true) or text:find("yy", 1, true))
      assert.is_truthy(text:find("y", 2, true))
    end
  end)

  it("names the option that keeps a model within its positions", function()
    local Positions = nn.class("Positions", Next)
    function Positions:forward(ids)
      self.drop(nn.functional.embedding(optlua.arange(0, ids.shape[2]), optlua.zeros(4, 2)))
      return Next.forward(self, ids)
    end
    local model = Positions(6)
    local message = fails("fails on 5 tokens .*out of range.*the option context says", data.generate, model, v, { prompt = "abcd", tokens = 9 })
    assert.is_nil(message:find "traceback")
    assert.is_true(model.training)
    assert.equal(13, #data.generate(model, v, { prompt = "abcd", tokens = 9, context = 4 }))
  end)

  it("says what does not fit, and restores modes then too", function()
    local model = Next(6)
    fails('"x" .* is not in the vocabulary', data.generate, model, v, { prompt = "x" })
    fails("is not in the vocabulary", data.generate, model, v) -- the default prompt is a new line
    fails("at least one character expected", data.generate, model, v, { prompt = "" })
    fails("logits of shape %(1, 1, 3%) expected", data.generate, model, data.vocabulary "abc", { prompt = "a" })
    fails("the model gives shape %(1, 1, 6%)", data.generate, model, data.vocabulary "abc", { prompt = "a" })
    fails("model: a module expected, got function", data.generate, print, v)
    fails("vocabulary: one of data.vocabulary expected, got nil", data.generate, model)
    fails("temperature: expected a number at least 0", data.generate, model, v, { temperature = -1 })
    fails("top_p: expected a number .*above 0", data.generate, model, v, { top_p = 0 })
    fails("top_k: expected an integer", data.generate, model, v, { top_k = 1.5 })
    fails('unknown option "top"', data.generate, model, v, { top = 1 })
    assert.is_true(model.training)
    local state = optlua.get_rng_state()
    fails("logits of shape", data.generate, model, data.vocabulary "abc", { prompt = "a", seed = 9 })
    assert.same(state, optlua.get_rng_state())
  end)
end)
