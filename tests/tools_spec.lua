-- The commands: optlua check, optlua plot, optlua test.
local trap_finder = require "optlua.tools.traps"
local traps_in = trap_finder.source
local files = require "files"
local lexer = require "optlua.tools.lexer"
local process = require "process"

-- Runs commands in a folder with these files; visit(result, folder).
local function with_files(list, command, visit)
  files.with_folder(function(folder)
    for name, text in pairs(list) do
      local home = name:match "^(.*)/"
      if home then os.execute(("mkdir -p '%s/%s'"):format(folder, home)) end
      files.write(folder .. "/" .. name, text)
    end
    visit(process.run(folder, command), folder)
  end)
end

-- What is found, as "LINE: first word of the trap".
local function traps(source)
  assert(load(source))
  local list = {}
  for i, one in ipairs(traps_in(source)) do
    local kind = one.message:find "^several members" and "members" or one.message:match "^(%S+ is %S+)"
    list[i] = one.line .. ": " .. kind
  end
  return list
end

-- A rule with this body.
local function rule(body) return "local optim = ...\nreturn optim.define { name = 'X', update = function(p, g, s, h)\n" .. body .. "\nend }" end

describe("the lexer", function()
  it("knows names, numbers, symbols, strings of all kinds, comments, lines", function()
    local function texts(source)
      local list = {}
      for i, token in ipairs(lexer.tokens(source)) do list[i] = token.text end
      return list
    end
    assert.same({ "a", ".", "b", "==", "0x1F", "..", "c", "...", "//", "~=" }, texts "a.b == 0x1F .. c ... // ~=")
    assert.same({ [["x\"y"]], "[==[ ]] ]==]", [['\\']] }, texts([=[ "x\"y" [==[ ]] ]==] '\\' ]=]))
    assert.same({ "a", "b" }, texts "a -- if x == 0\n--[[ self.a,\nself.b ]] --[=[ ]] ]=] b")
    local tokens = lexer.tokens "a\n--[[\n\n]]b '\\\n' c"
    assert.same({ 1, 4, 4, 5 }, { tokens[1].line, tokens[2].line, tokens[3].line, tokens[4].line })
  end)
end)

describe("optlua check", function()
  it("finds tensors, and the numbers of item(), that are tested for truth", function()
    local trap, zero = "gives a tensor, which is always true", "0 is true in Lua"
    for source, wanted in pairs {
      ["if x:all() then end"] = trap, ["while t.a[1]:gt(3) do end"] = trap, ["if not (x + 1):gt(100):all() then end"] = trap,
      ["repeat until x:eq(1)"] = trap, ["if a and x:isnan():any() then end"] = trap, ["local y = x:any() and 1 or 2"] = trap,
      ["if x:all():item() then end"] = zero, ["return not x:any():item()"] = zero,
      ["if f(x)[2]:lt(0) or y then end"] = trap,
    } do
      local found = traps_in(source)
      assert.equal(1, #found, source)
      assert.is_truthy(found[1].message:find(wanted, 1, true), source)
    end
    for _, source in ipairs {
      "if x:all():item() ~= 0 then end", "local m = x:gt(0)", "if f(x:gt(0)) then end", "for a in x:all() do end", "if #x:eq(1) > 0 then end",
      "if 1 == x:all():item() then end", "local z = x:gt(0) * 2", "local m = m and m:logical_or(o) or o", "if x:equal(y) then end",
    } do assert.same({}, traps_in(source), source) end
  end)

  it("finds several members in one assignment", function()
    for source, wanted in pairs {
      ["local self = {}\nself.a, self.b = 1, 2"] = { "2: members" },
      ["local self = {}\nself.a.b, self.a.c = 1, 2"] = { "2: members" },
      ["local self = {}\nself[1], self.b, self.c = 1, 2, 3"] = { "2: members" },
      ["local self = {} self.a = 1\nself.a,\nself.b = 1, 2"] = { "2: members" },
      ["local self = {}\nself.a = self.b, self.c"] = {},
      ["local self = {}\nlocal a, b = self.a, self.b"] = {},
      ["local self = {}\nlocal a, b\na, self.b = 1, 2"] = {},
      ["local self = {}\nf(self.a, self.b)"] = {},
      ["local self = {}\nreturn self.a, self.b"] = {},
      ["-- self.a, self.b = 1, 2\nlocal s = 'self.a, self.b = 1, 2'\nlocal t = [[\nself.a, self.b = 1, 2]]"] = {},
    } do
      assert.same(wanted, traps(source), source)
    end
  end)

  it("finds comparisons of symbols", function()
    for body, wanted in pairs {
      ["if s.x == 0 then return p end\nreturn g"] = { "3: s.x is compared" },
      ["return p ~= g and p or g"] = { "3: p is compared", "3: g is compared" },
      ["local a = 0 == g"] = { "3: g is compared" },
      ["if s.x * 2 == 0 then return p end"] = { "3: s.x is compared" },
      ["if (s.x + h.eps) == 0 then return p end"] = { "3: s.x is compared" },
      ["if g:abs() == 0 then return p end"] = { "3: g is compared" },
      ["local m = h.a * s.x + g\nif m == 0 then return p end"] = { "4: m is compared" },
      ["repeat local x = 1 until s.x == 0"] = { "3: s.x is compared" },
      ["local f = function() return s.x == 1 end return p"] = { "3: s.x is compared" },
      ["if p.ndim == 2 and p.shape[1] == 3 and p.numel ~= 1 then return p end"] = {},
      ["if h.step == 1 then return p end return g"] = {},
      ["if h.x == h.y or #p.shape == 2 then return g end"] = {},
      ["local m = h.a * 2\nif m == 0 then return g end"] = {},
      ["local m = g\nlocal m = h.a\nif m == 0 then return g end"] = {},
      ["for m = 1, 3 do if m == 2 then return g end end"] = {},
      ["return optim.where(optim.eq(s.x, 0), p, g)"] = {},
      ["return optim.clamp(g, { min = s.x }) -- s.x == 0"] = {},
      ["local text = 's.x == 0' return p"] = {},
    } do
      assert.same(wanted, traps(rule(body)), body)
    end
  end)

  it("finds tests of symbols for truth", function()
    for body, wanted in pairs {
      ["if s.x then return p end"] = { "3: s.x is tested" },
      ["if h.a then return p elseif g then return g end"] = { "3: g is tested" },
      ["while g do break end"] = { "3: g is tested" },
      ["repeat local x = 1 until s.x\nreturn p"] = { "3: s.x is tested" },
      ["if not s.x then return p end"] = { "3: s.x is tested" },
      ["if (s.x) then return p end"] = { "3: s.x is tested" },
      ["local y = s.x and p"] = { "3: s.x is tested" },
      ["local y = h.a and s.x and p"] = { "3: s.x is tested" },
      ["local y = s.x or g"] = { "3: s.x is tested" },
      ["if h.a and s.x then return p end"] = { "3: s.x is tested" },
      ["local y = h.b * s.x\nif y then return y end"] = { "4: y is tested" },
      ["local y = h.step == 1 and s.x or g return y"] = {},
      ["local y = h.nesterov and g + h.m * s.x or s.x return y"] = {},
      ["local y = h.a and (h.b and p or g) or g return y"] = {},
      ["local y = h.a or h.b\nif y then return g end"] = {},
      ["if h.a then return p end if p.ndim then return g end"] = {},
      ["for i = 1, 3 do while h.a do if h.b then break end end end\nif s.x then return p end"] = { "4: s.x is tested" },
      ["do local a = 1 end\nif optim.max(g) then return p end"] = {},
    } do
      assert.same(wanted, traps(rule(body)), body)
    end
  end)

  it("knows where rules are, and what is none", function()
    local body = "(p, g, s, h)\nif s.x == 0 then return p end\nreturn g end"
    for _, source in ipairs {
      "return optim.transform(optim.SGD, { update = function" .. body .. " })",
      "local class = { update = function" .. body .. " } return optim.define(class)",
      "local function update" .. body .. "\nreturn optim.define { update = update }",
      "local function step" .. body .. "\nreturn optim.define { update = step }",
      "local X = {} function X.update" .. body .. "\nreturn optim.define(X)",
    } do
      assert.same({ "2: s.x is compared" }, traps(source), source)
    end
    for _, source in ipairs {
      "return { update = function" .. body .. ", compute = print }",
      "return optim.define { update = function(p, g, s, h) return g end }, game { update = function" .. body .. " }",
      "local d = optim.define { update = function(p, g, s, h) return g end }\nlocal function other" .. body,
      rule "return g" .. ", function(s) if s.x == 0 then return end end",
    } do
      assert.same({}, traps(source), source)
    end
    assert.same({ "2: b.m is compared" }, traps "optim.define { update = function(x, a, b)\nreturn b.m == 1 and x or a end }")
  end)

  it("finds none in our own optimizers and layers", function()
    local result = process.run(".", "ls lua/optlua/optim/*.lua lua/optlua/optim/*/*.lua lua/optlua/nn/*.lua scripts/*.lua scripts/optimizers/*.lua")
    for path in result.out:gmatch "%S+" do
      local source = files.read(path):gsub("^#[^\n]*", "")
      local found = path:find "/optim/" and not trap_finder.hands_out_classes(source) and {} or traps_in(source)
      assert.equal(0, #found, path .. (found[1] and (":%d: %s"):format(found[1].line, found[1].message) or ""))
    end
  end)

  it("prints file and line, and ends with a status", function()
    with_files({ ["a.lua"] = "local self = {}\nself.a, self.b = 1, 2\n", ["b.lua"] = "x = = 1", ["c.lua"] = "return 1",
      ["d.lua"] = "#!/usr/bin/env optlua\nlocal self = {} self.a, self.b = 1, 2" },
      "optlua check a.lua c.lua; echo $?; optlua check b.lua; echo $?; optlua check c.lua; echo $?; optlua check d.lua; echo $?; "
      .. "optlua check none.lua c.lua; echo $?; optlua check; echo $?", function(result)
      assert.matches("^a.lua:2: several members in one assignment: [^\n]*; write one a line\n1\n", result.out)
      assert.matches("\nb.lua:1: unexpected symbol near '='\n1\nno traps found\n0\nd.lua:2: several members", result.out)
      assert.matches("\n1\n2\n2\n$", result.out)
      assert.matches("optlua check: none.lua: No such file", result.err)
    end)
  end)
end)

describe("optlua check of optimizers", function()
  local good = [[
local optim = require("optlua").optim
local function make(name, sign)
  return optim.define { name = name, hyper = { lr = 0.1 }, update = function(p, g, _, h) return p - sign * h.lr * g end }
end
]]
  local down, both = good .. "return make('Down', 1)\n", good .. "return { make('Down', 1), up = make('Up', -1), 3 }\n"

  it("tests what a script returns, one class or several", function()
    with_files({ ["down.lua"] = down, ["both.lua"] = both }, "optlua check down.lua; echo $?; optlua check both.lua; echo $?", function(result)
      assert.equal("", result.err)
      assert.matches("^Down: %d+ hold, %d do not apply\n  falls on a quadratic +holds .*\nno traps found\n0\nDown: %d+ hold", result.out)
      assert.matches("\nUp: %d+ hold, %d do not apply, 2 FAIL\n  falls on a quadratic +FAILS +the loss went from .*\n1\n$", result.out)
    end)
  end)

  it("tests what a script registers, and does not let it train", function()
    with_files({ ["a.lua"] = good .. [[
optim.register("other", make("Other", 1))
local w = require("optlua").zeros({ 2 }, { requires_grad = true })
w.grad = w:detach() + 1
local class = optim.register("mine", make("Mine", 1))
class({ w }):step()
print "trained"
]], ["train.lua"] = good .. "print 'trained' make('Down', 1)" }, "optlua check a.lua train.lua; echo $?", function(result)
      assert.equal("", result.err)
      assert.matches("^Mine: %d+ hold.*\nOther: %d+ hold.*\nno traps found\n0\n$", result.out)
      assert.is_nil(result.out:find "trained")
    end)
  end)

  it("runs files that make classes and hand them out, and no others", function()
    for source, wanted in pairs {
      ["local o = require 'optlua.optim' return o.define {}"] = true,
      ["local define = require('optlua').optim.define; return { define {} }"] = true,
      ["local lua = require 'optlua' local o = lua.optim lua.optim.register('x', o.sam(o.SGD))"] = true,
      ["return require 'mine'"] = true,
      ["optim.register('mine', require('mine'))"] = true,
      ["local mine = require 'optluamine' return mine"] = true,
      ["local net = require 'net' return require('optlua').spec { net = net }"] = false,
      ["local net = require 'net' net:train()"] = false,
      ["return require 'optlua.optim'"] = false,
      ["local nn, optim = optlua.nn, optlua.optim if x then return optim.wrapper {} end"] = false,
      ["do local function f() return optim.define {} end end while f() do return end repeat return until x return 1"] = true,
      ["optim.define {} for k = 1, 2 do return end local function f() return 1 end"] = false,
      ["return require('optlua').spec { build = function(data) return data.transform(x) end }"] = false,
      ["local schedule = optlua.schedule schedule.register('x', {}) return 1"] = false,
      ["-- optim.define\nreturn 'optim.define {}'"] = false,
    } do
      assert.equal(wanted, (trap_finder.hands_out_classes(source)), source)
    end
  end)

  it("tests classes of modules, and says where a script makes some and hands out none", function()
    with_files({ ["down.lua"] = down, ["a.lua"] = "return require 'down'", ["b.lua"] = "require('optlua').optim.register('mine', require 'down')",
      ["kept.lua"] = good .. "local Down = make('Down', 1)", ["other.lua"] = "return require 'none_of_it'", ["none_of_it.lua"] = "return {}" },
      "optlua check a.lua; optlua check b.lua; optlua check kept.lua; optlua check other.lua", function(result)
      assert.equal("", result.err)
      assert.matches("^Down: %d+ hold.*\nno traps found\nDown: %d+ hold.*\nno traps found\nkept.lua: no optimizer is returned or registered; "
        .. "none was tested\nno traps found\nother.lua: no optimizer is returned or registered; none was tested\nno traps found\n$", result.out)
    end)
  end)

  it("says that a transform is tested around a class", function()
    local made = "function(inner) return optim.transform(inner, { name = 'Clipit', update = function(p, g, _, _, inner_update) "
      .. "return inner_update(p, optim.clamp(g, -1, 1)) end }) end"
    local begin = "local optim = require('optlua').optim "
    with_files({ ["clipit.lua"] = begin .. "return " .. made, ["named.lua"] = begin .. "return optim.register('clipper', " .. made .. ")",
      ["use.lua"] = begin .. "print(select(2, pcall(optim.check, 'clipit'))) print(optim.check('clipit(SGD)').ok)" },
      "optlua check clipit.lua; optlua check named.lua; optlua use.lua", function(result)
      assert.equal("", result.err)
      assert.equal(([[
clipit.lua: a transform, which is tested around a class: optim.check "clipit(SGD)"; nothing was tested
no traps found
named.lua: a transform, which is tested around a class: optim.check "clipper(SGD)"; nothing was tested
no traps found
use.lua:1: optim.check: class: clipit is a transform, which stands around a class: write "clipit(AdamW)"
true
]]), result.out)
    end)
  end)

  it("says what it cannot test", function()
    with_files({ ["odd.lua"] = good:gsub("hyper =", "accepts = { ndim = 9 }, hyper =") .. "return make('Odd', 1)" },
      "optlua check odd.lua; echo $?", function(result)
      assert.equal("", result.err)
      assert.matches("optim.check: Odd accepts no parameter of the shapes that were tried[^\n]*\n1\n$", result.out)
    end)
  end)

  it("says where a script fails, and finds its modules beside it", function()
    with_files({ ["bad.lua"] = good .. "error 'no luck' return make('Down', 1)", ["out.lua"] = good .. "os.exit(0) return make('Down', 1)", ["x/rule.lua"] = down,
      ["x/again.lua"] = "local optim = require 'optlua.optim' return optim.transform(require 'rule', { name = 'Twice', "
        .. "update = function(p, g, s, h, inner) return inner(inner(p, g), g) end })" },
      "optlua check bad.lua; echo $?; optlua check x/again.lua; echo $?; optlua check out.lua; echo $?; optlua check --help", function(result)
      assert.equal("", result.err)
      assert.matches("^bad.lua:5: no luck\n1\nTwice: %d+ hold.*\n0\nout.lua: os.exit is called[^\n]*\n1\nusage: optlua check FILE...\n", result.out)
    end)
  end)
end)

describe("optlua test", function()
  it("has help", function()
    local result = process.run(".", "optlua test --help; echo $?")
    assert.equal("", result.err)
    assert.matches("^usage: optlua test %[DIR|FILE%].*\n0\n$", result.out)
  end)
end)

describe("optlua plot", function()
  local function log(...)
    local lines = {}
    for k, value in ipairs { ... } do lines[k] = ('{"step":%d,"loss":%s,"lr.default":0.5}'):format(k, value) end
    return table.concat(lines, "\n") .. "\n"
  end

  it("draws several runs, in the terminal and as SVG", function()
    with_files({ ["a/log.jsonl"] = log(3, 2, 1), ["b/log.jsonl"] = log(1, 1, "null", 4) },
      "optlua plot a b --out both.svg && optlua plot b/log.jsonl --of lr.default", function(result, folder)
      assert.same({ "", 0 }, { result.err, result.code })
      assert.matches("\n +%* loss of a\n +%+ loss of b\n", result.out)
      assert.matches("lr.default of b/log.jsonl\n", result.out)
      local svg = files.read(folder .. "/both.svg")
      assert.matches("^<svg xmlns=", svg)
      assert.equal(2, select(2, svg:gsub("<polyline", "")))
      assert.matches(">loss of b<", svg)
    end)
  end)

  it("draws each value where its step is", function()
    with_files({ ["a/log.jsonl"] = '{"step":1,"loss":8}\n{"step":11,"loss":4}\n{"step":21,"loss":0}\n',
      ["b/log.jsonl"] = '{"step":11,"loss":8}\n{"step":21,"loss":4}\n' }, "optlua plot a b --out x.svg", function(result, folder)
      local svg = files.read(folder .. "/x.svg")
      local points = {}
      for text in svg:gmatch 'points="([^"]*)"' do points[#points + 1] = text end
      assert.equal("70.00,20.00 385.00,190.00 700.00,360.00", points[1])
      assert.equal("385.00,20.00 700.00,190.00", points[2])
      assert.matches("\n +1 +21\n", result.out)
    end)
  end)

  it("draws values of validations apart from those of steps", function()
    with_files({ ["a/log.jsonl"] = log(9, 8) .. '{"event":"validation","step":2,"loss":5,"accuracy":0.5}\n' .. log(7, 6)
      .. '{"event":"validation","step":4,"loss":4,"accuracy":0.75}\n{"event":"reload","step":4,"change":"x"}\n' },
      "optlua plot a --of validation.loss; optlua plot a --of validation.accuracy; optlua plot a; optlua plot a --of accuracy",
      function(result)
        assert.matches("^ +5 |", result.out)
        assert.matches("validation.accuracy of a", result.out)
        assert.matches("\n +7 |", result.out) -- steps 1 and 2 as they were last
        assert.matches('optlua plot: a/log.jsonl: unknown name "accuracy"; '
          .. "legal: loss, lr.default, validation.accuracy, validation.loss", result.err)
        assert.equal(2, result.code)
      end)
  end)

  it("reads the log of a run that has not ended, and says what is broken elsewhere", function()
    with_files({ ["a/log.jsonl"] = log(3, 2) .. '{"step":3,"lo', ["b/log.jsonl"] = '{"step":1,\n' .. log(1), ["c/log.jsonl"] = "",
      ["d/log.jsonl"] = "5\n", ["e/log.jsonl"] = '{"step":1,"loss":null}\n' },
      "optlua plot a; echo $?; for r in b c d e none; do optlua plot $r; echo $?; done", function(result)
      assert.matches("loss of a\n0\n2\n2\n2\n2\n2\n$", result.out)
      assert.matches("optlua plot: b/log.jsonl:1: ", result.err)
      assert.matches('optlua plot: c/log.jsonl: there is no record in it\n', result.err)
      assert.matches("optlua plot: d/log.jsonl:1: a record expected\n", result.err)
      assert.matches('optlua plot: e/log.jsonl: no step has a finite "loss"\n', result.err)
      assert.matches("optlua plot: none/log.jsonl: No such file", result.err)
    end)
  end)

  it("says how it is used", function()
    with_files({ ["a/log.jsonl"] = log(3, 2) }, "optlua plot --of loss; optlua plot a --off x; optlua plot a --out; "
      .. "optlua plot a --out no/where.svg; echo $?", function(result)
      assert.matches("which runs%? give folders of runs", result.err)
      assert.matches("unknown option %-%-off; legal: %-%-of NAME, %-%-out FILE.svg", result.err)
      assert.matches("%-%-out: a value is missing", result.err)
      assert.matches("optlua plot: the chart: no/where.svg: cannot be written: No such file", result.err)
      assert.matches("\n2\n$", "\n" .. result.out)
    end)
  end)
end)

describe("optlua test", function()
  local SPEC = "local mine = require 'mine'\ndescribe('mine', function()\n  it('is %s', function() assert.equal(%s, mine) end)\nend)\n"

  it("runs the specs of a folder with the folder on the path, and ends with a status", function()
    with_files({ ["x/mine.lua"] = "return 5", ["x/mine_spec.lua"] = SPEC:format("five", "5"), ["x/other.lua"] = "error 'not a spec'",
      ["x/deep/more_spec.lua"] = SPEC:format("no six", "5"), ["y/mine.lua"] = "return 5", ["y/bad_spec.lua"] = SPEC:format("six", "6") },
      "optlua test x; echo $?; optlua test y; echo $?; cd x; optlua test; echo $?; optlua test mine_spec.lua; echo $?; "
      .. "optlua test --filter five; echo $?", function(result)
      local words = {}
      for line in result.out:gmatch "[^\n]+" do
        words[#words + 1] = line:match "^(%d+ success[^/]*/ %d+ failure)" or line:match "^%d+$"
      end
      assert.same({ "2 successes / 0 failure", "0", "0 successes / 1 failure", "1", "2 successes / 0 failure", "0",
        "1 success / 0 failure", "0", "1 success / 0 failure", "0" }, words)
    end)
  end)

  it("finds no tests", function()
    with_files({ ["x/mine.lua"] = "return 5" }, "optlua test x; echo $?; optlua test none; echo $?", function(result)
      assert.not_matches("\n0\n", "\n" .. result.out)
    end)
  end)
end)
