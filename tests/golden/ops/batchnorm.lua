-- Made by make_ops.py with PyTorch 2.13.0+cpu: places (from 0) and shapes of doubles in the .bin.
return {
  ["batch_norm/1"] = { outputs = {{0,{4,3}}}, grads = {{12,{4,3}}} },
  ["batch_norm/2"] = { outputs = {{24,{4,3}}}, grads = {{36,{4,3}},{48,{3}},{51,{3}}} },
  ["batch_norm/3"] = { outputs = {{54,{2,3,5}}}, grads = {{84,{2,3,5}},{114,{3}},{117,{3}}} },
  ["batch_norm/4"] = { outputs = {{120,{2,3,4,5}}}, grads = {{240,{2,3,4,5}},{360,{3}},{363,{3}}} },
  ["batch_norm/5"] = { outputs = {{366,{3,2,17}}}, grads = {{468,{3,2,17}},{570,{2}}} },
  ["batch_norm/6"] = { outputs = {{572,{2,3,4,5}}}, grads = {{692,{2,3,4,5}},{812,{3}},{815,{3}}} },
  ["batch_norm/7"] = { outputs = {{818,{2,3,2}}}, grads = {{830,{2,3,2}},{842,{3}}} },
  ["batch_norm/8"] = { outputs = {{845,{4,3}}}, grads = {{857,{4,3}}} },
  ["batch_norm/9"] = { outputs = {{869,{3,4,5}}}, grads = {{929,{3,4,5}},{989,{4}},{993,{4}}} },
  ["batch_norm/10"] = { outputs = {{997,{0,3,4}}}, grads = {{997,{0,3,4}},{997,{3}},{1000,{3}}} },
  ["batch_norm/11"] = { outputs = {{1003,{0,3}}}, grads = {{1003,{0,3}},{1003,{3}},{1006,{3}}} },
}
