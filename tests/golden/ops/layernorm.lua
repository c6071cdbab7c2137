-- Made by make_ops.py with PyTorch 2.13.0+cpu: places (from 0) and shapes of doubles in the .bin.
return {
  ["layer_norm/1"] = { outputs = {{0,{3,4}}}, grads = {{12,{3,4}}} },
  ["layer_norm/2"] = { outputs = {{24,{3,4}}}, grads = {{36,{3,4}},{48,{4}},{52,{4}}} },
  ["layer_norm/3"] = { outputs = {{56,{2,3,4}}}, grads = {{80,{2,3,4}},{104,{3,4}},{116,{3,4}}} },
  ["layer_norm/4"] = { outputs = {{128,{4}}}, grads = {{132,{4}},{136,{4}}} },
  ["layer_norm/5"] = { outputs = {{140,{3,4}}}, grads = {{152,{3,4}},{164,{4}}} },
  ["layer_norm/6"] = { outputs = {{168,{3,4}}}, grads = {{180,{3,4}},{192,{4}},{196,{4}}} },
  ["layer_norm/7"] = { outputs = {{200,{3,2}}}, grads = {{206,{3,2}},{212,{2}},{214,{2}}} },
  ["layer_norm/8"] = { outputs = {{216,{0,4}}}, grads = {{216,{0,4}},{216,{4}},{220,{4}}} },
  ["rms_norm/1"] = { outputs = {{224,{3,4}}}, grads = {{236,{3,4}}} },
  ["rms_norm/2"] = { outputs = {{248,{3,4}}}, grads = {{260,{3,4}},{272,{4}}} },
  ["rms_norm/3"] = { outputs = {{276,{2,3,4}}}, grads = {{300,{2,3,4}},{324,{3,4}}} },
  ["rms_norm/4"] = { outputs = {{336,{4}}}, grads = {{340,{4}},{344,{4}}} },
  ["rms_norm/5"] = { outputs = {{348,{3,4}}}, grads = {{360,{3,4}},{372,{4}}} },
  ["rms_norm/6"] = { outputs = {{376,{0,4}}}, grads = {{376,{0,4}},{376,{4}}} },
}
