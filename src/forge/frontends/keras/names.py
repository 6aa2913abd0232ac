"""What Keras 3.15 exports: names of layers, and classes of operations of ``keras.ops``."""

from __future__ import annotations

LAYERS: tuple[str, ...] = tuple("""
Activation ActivityRegularization AdaptiveAveragePooling1D AdaptiveAveragePooling2D AdaptiveAveragePooling3D
AdaptiveMaxPooling1D AdaptiveMaxPooling2D AdaptiveMaxPooling3D Add AdditiveAttention AlphaDropout Attention AugMix AutoContrast
Average AveragePooling1D AveragePooling2D AveragePooling3D AvgPool1D AvgPool2D AvgPool3D BatchNormalization Bidirectional
CategoryEncoding CenterCrop Concatenate ContrastLimitedAdaptiveHistogramEqualization Conv1D Conv1DTranspose Conv2D
Conv2DTranspose Conv3D Conv3DTranspose ConvLSTM1D ConvLSTM2D ConvLSTM3D Convolution1D Convolution1DTranspose Convolution2D
Convolution2DTranspose Convolution3D Convolution3DTranspose Cropping1D Cropping2D Cropping3D CutMix Dense DepthwiseConv1D
DepthwiseConv2D Discretization Dot Dropout ELU EinsumDense Embedding Equalization Flatten FlaxLayer GRU GRUCell GaussianDropout
GaussianNoise GlobalAveragePooling1D GlobalAveragePooling2D GlobalAveragePooling3D GlobalAvgPool1D GlobalAvgPool2D
GlobalAvgPool3D GlobalMaxPool1D GlobalMaxPool2D GlobalMaxPool3D GlobalMaxPooling1D GlobalMaxPooling2D GlobalMaxPooling3D
GroupNormalization GroupQueryAttention HashedCrossing Hashing Identity InputLayer IntegerLookup JaxLayer LSTM
LSTMCell Lambda Layer LayerNormalization LeakyReLU Masking MaxNumBoundingBoxes MaxPool1D MaxPool2D MaxPool3D MaxPooling1D
MaxPooling2D MaxPooling3D Maximum MelSpectrogram Minimum MixUp MultiHeadAttention Multiply Normalization PReLU Permute Pipeline
RMSNormalization RNN RandAugment RandomBrightness RandomColorDegeneration RandomColorJitter RandomContrast RandomCrop
RandomElasticTransform RandomErasing RandomFlip RandomGaussianBlur RandomGrayscale RandomHue RandomInvert RandomPerspective
RandomPosterization RandomRotation RandomSaturation RandomSharpness RandomShear RandomTranslation RandomZoom ReLU RepeatVector
Rescaling Reshape Resizing ReversibleEmbedding STFTSpectrogram SeparableConv1D SeparableConv2D SeparableConvolution1D
SeparableConvolution2D SimpleRNN SimpleRNNCell Softmax Solarization SpatialDropout1D SpatialDropout2D SpatialDropout3D
SpectralNormalization StackedRNNCells StringLookup Subtract TFSMLayer TextVectorization TimeDistributed TorchModuleWrapper
UnitNormalization UpSampling1D UpSampling2D UpSampling3D Wrapper ZeroPadding1D ZeroPadding2D ZeroPadding3D
""".split())

OPERATIONS: tuple[str, ...] = tuple("""
Abs Absolute AdaptiveAveragePool AdaptiveMaxPool Add AffineTransform All AllClose Amax Amin Angle Any Append Arange Arccos
Arccosh Arcsin Arcsinh Arctan Arctan2 Arctanh Argmax Argmin Argpartition Argsort Array ArraySplit AssociativeScan Average
AveragePool BatchNorm BinaryCrossentropy Bincount BitwiseAnd BitwiseInvert BitwiseLeftShift BitwiseNot BitwiseOr
BitwiseRightShift BitwiseXor BroadcastTo CDist CTCDecode CTCLoss Cast CategoricalCrossentropy Cbrt Ceil Celu Cholesky
CholeskyInverse Clip Concatenate Cond Conj Conjugate Conv ConvTranspose ConvertToTensor Copy Corrcoef Correlate Cos Cosh
CountNonzero CropImages Cross Cumprod Cumsum Deg2rad DepthToSpace DepthwiseConv Det Diag Diagflat Diagonal Diff Digitize Divide
DivideNoNan Dot DotProductAttention Dsplit Dstack Eig Eigh Einsum ElasticTransform Elu EmptyLike Equal Erf Erfc Erfinv Exp Exp2
ExpandDims Expm1 ExtractPatches ExtractSequences FFT FFT2 Fabs Flip Fliplr Flipud Floor FloorDivide Fmax Fmin Fmod Fold ForiLoop
Full FullLike GaussianBlur Gcd Gelu Geomspace GetItem Glu Greater GreaterEqual HSVToRGB HardShrink HardSigmoid HardSilu HardTanh
Heaviside Histogram Hsplit Hstack Hypot I0 IFFT2 IRFFT ISTFT Imag InTopK Inner Inv IsIn Isclose Isfinite Isinf Isnan Isneginf
Isposinf Isreal JVP Kron LayerNorm Lcm Ldexp LeakyRelu LeftShift Less LessEqual Linspace Log Log10 Log1p Log2 LogSigmoid
LogSoftmax Logaddexp Logaddexp2 Logdet LogicalAnd LogicalNot LogicalOr LogicalXor Logspace Logsumexp Lstsq LuFactor Map
MapCoordinates Matmul MatrixRank Max MaxPool Maximum Mean Median Meshgrid Min Minimum Mod Moments Moveaxis MultiHot Multiply
NanToNum Nanargmax Nanargmin Nancumprod Nancumsum Nanmax Nanmean Nanmedian Nanmin Nanpercentile Nanprod Nanquantile Nanstd
Nansum Nanvar Ndim Negative Nextafter Nonzero Norm Normalize NotEqual OneHot OnesLike Outer PSNR Pad PadImages Percentile
PerspectiveTransform Pinv Polar Power Prod Ptp Qr Quantile RFFT RGBToGrayscale RGBToHSV RMSNorm Rad2deg Ravel Real Reciprocal
Relu Relu6 Repeat Reshape Resize RightShift Roll Rot90 Round Rsqrt SSIM STFT SVD SaturateCast ScaleAndTranslate Scan Scatter
ScatterUpdate SearchSorted SegmentMax SegmentMin SegmentProd SegmentReduction SegmentSum Select Selu SeparableConv Sigmoid Sign
Signbit Silu Sin Sinc Sinh Size Slice SliceUpdate Slogdet SobelEdges SoftShrink Softmax Softplus Softsign Solve SolveTriangular
Sort SpaceToDepth SparseCategoricalCrossentropy SparsePlus SparseSigmoid Sparsemax Split Sqrt Square Squareplus Squeeze Stack
Std StopGradient Subtract Sum Swapaxes Switch Take TakeAlongAxis Tan Tanh TanhShrink Tensordot Threshold Tile TopK Trace
Transpose Trapezoid Tril Triu TrueDivide Trunc Unfold Unique UnravelIndex Unstack Vander Var Vdot VectorizedMap View
ViewAsComplex ViewAsReal Vsplit Vstack Where WhileLoop ZerosLike
""".split())
