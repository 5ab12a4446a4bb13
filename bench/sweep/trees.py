"""Models of scikit-learn and LightGBM, trained on a made-up function.

Usage: trees.py FOLDER [NAME...]   writes FOLDER/NAME/model.onnx, x0.npy, and what onnxruntime makes of it, y0.npy …
Needs what bench/sweep/trees.txt pins.
"""
import pathlib
import sys
import warnings

warnings.filterwarnings("ignore")
import numpy as np  # noqa: E402

import results  # noqa: E402

ROWS, COLUMNS = 2000, 20
OPSET = {"": 18, "ai.onnx.ml": 3}


def data():
    x = np.random.RandomState(0).randn(ROWS, COLUMNS).astype(np.float32)
    return x, x[:, 0] * x[:, 1] + x[:, 2]


def scikit(model):
    import skl2onnx
    from skl2onnx.common.data_types import FloatTensorType

    x, y = data()
    model.fit(x, y > 0)
    options = {id(model): {"zipmap": False}} if hasattr(model, "predict_proba") else None
    return skl2onnx.to_onnx(model, initial_types=[("x0", FloatTensorType([None, COLUMNS]))], options=options, target_opset=OPSET)


def forest():
    from sklearn import ensemble

    return scikit(ensemble.RandomForestClassifier(100, max_depth=10, random_state=0))


def vectors():
    from sklearn import svm

    return scikit(svm.SVC(probability=True, random_state=0))


def means():
    from sklearn import cluster

    return scikit(cluster.KMeans(16, n_init=1, random_state=0))


def boosted():
    import lightgbm
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    model = lightgbm.LGBMRegressor(n_estimators=200, num_leaves=63, verbose=-1).fit(*data())
    return onnxmltools.convert_lightgbm(model, initial_types=[("x0", FloatTensorType([None, COLUMNS]))], target_opset=15)


MODELS = {"sk_forest": forest, "sk_svc": vectors, "sk_kmeans": means, "lightgbm": boosted}
CASES = {f"{name}_b{rows}": (make, rows) for name, make in MODELS.items() for rows in (1, 1000)}


def main():
    root, names = pathlib.Path(sys.argv[1]), sys.argv[2:] or list(CASES)
    for name in names:
        make, rows = CASES[name]
        results.write(root / name, make(), [data()[0][:rows]])


if __name__ == "__main__":
    main()
