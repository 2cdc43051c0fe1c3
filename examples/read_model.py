"""Read a model file: what it promises, who took part, and what it predicts for a new patient.

parley demo                                         # writes parley-demo/model.npz
python examples/read_model.py parley-demo/model.npz
"""

import sys

from parley import study

model = study.load(sys.argv[1])
card = model.card
print(f"run {card['run']}: epsilon {card['epsilon']:.4g} at delta {card['delta']:g}, {card['rounds']} rounds")
print("parties:", ", ".join(f"{name} ({units})" for name, units in card["parties"].items()))

patient = {column["name"]: column.get("low", 0) for column in model.description["schema"]["features"]}
patient |= {
    column["name"]: column["categories"][0]
    for column in model.description["schema"]["features"]
    if column["kind"] == "category"
}
print("a new patient:", patient)
print("prediction:", model.predict([patient])[0])
print("probability:", round(float(model.predict_proba([patient])[0, 1]), 3))
