// Kernels that call libdevice's powers, as a compiler for CUDA's devices compiles them: test_triton.py links them with ours.
extern "C" {
double __nv_pow(double x, double y);
float __nv_powf(float x, float y);
double __nv_powi(double x, int y);
float __nv_powif(float x, int y);
}

#define KERNEL(name, function, real, exponent)                                                             \
    extern "C" __attribute__((nvptx_kernel)) void name(const real* x, const exponent* y, real* z, int n) { \
        const int i = __nvvm_read_ptx_sreg_ctaid_x() * 128 + __nvvm_read_ptx_sreg_tid_x();                 \
        if (i < n) z[i] = function(x[i], y[i]);                                                            \
    }
KERNEL(float64, __nv_pow, double, double)
KERNEL(float32, __nv_powf, float, float)
KERNEL(float64_integers, __nv_powi, double, int)
KERNEL(float32_integers, __nv_powif, float, int)
