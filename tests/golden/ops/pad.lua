-- Made by make_ops.py with PyTorch 2.13.0+cpu: places (from 0) and shapes of doubles in the .bin.
return {
  ["pad/1"] = { outputs = {{0,{3,7}}}, grads = {{21,{3,4}}} },
  ["pad/2"] = { outputs = {{33,{2,6,5}}}, grads = {{93,{2,3,4}}} },
  ["pad/3"] = { outputs = {{117,{2,5}}}, grads = {{127,{3,4}}} },
  ["pad/4"] = { outputs = {{139,{2,3,8}}}, grads = {{187,{2,3,5}}} },
  ["pad/5"] = { outputs = {{217,{2,2,8,10}}}, grads = {{537,{2,2,4,5}}} },
  ["pad/6"] = { outputs = {{617,{1,2,9,10}}}, grads = {{797,{1,2,3,4}}} },
  ["pad/7"] = { outputs = {{821,{2,3,9,12}}}, grads = {{1469,{2,3,4,5}}} },
  ["pad/8"] = { outputs = {{1589,{2,3,12}}}, grads = {{1661,{2,3,5}}} },
  ["pad/9"] = { outputs = {{1691,{3,6,8}}}, grads = {{1835,{3,4,5}}} },
  ["pad/10"] = { outputs = {{1895,{3,2,6}}}, grads = {{1931,{3,2,4}}} },
  ["pad/11"] = { outputs = {{1955,{}}}, grads = {{1956,{}}} },
  ["pad/12"] = { outputs = {{1957,{3,0}}}, grads = {{1957,{3,4}}} },
  ["pad/13"] = { outputs = {{1969,{0,3,6}}}, grads = {{1969,{0,3,4}}} },
  ["pad/14"] = { outputs = {{1969,{0,3,6}}}, grads = {{1969,{0,3,4}}} },
  ["pad/15"] = { outputs = {{1969,{2,5}}}, grads = {} },
  ["pad/16"] = { outputs = {{1979,{7}}}, grads = {} },
}
