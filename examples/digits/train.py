"""Trains the classifier of the demo on scikit-learn's 8x8 digits and exports it to ONNX.

Needs torch, onnxscript and scikit-learn (extra ``test-all``); takes ten seconds on one core. Writes next to itself
``digits.onnx`` and ``digits_test.npz``, which are committed: `demo.py` needs neither torch nor this script.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

FOLDER = Path(__file__).parent
EPOCHS = 30
BATCH = 64


class Classifier(nn.Module):
    """Maps pictures ``(N, 1, 8, 8)`` float32 with values from 0 to 16 to the logits ``(N, 10)`` of the ten digits."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(self._convolution(1, 16), nn.ReLU())
        self.residual = nn.Sequential(self._convolution(16, 16), nn.ReLU(), self._convolution(16, 16))
        self.deep = nn.Sequential(nn.MaxPool2d(2), self._convolution(16, 40), nn.ReLU())
        self.head = nn.Linear(40, 10)

    @staticmethod
    def _convolution(channels_in: int, channels_out: int) -> nn.Module:
        convolution = nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False)
        return nn.Sequential(convolution, nn.BatchNorm2d(channels_out))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.stem(image / 16.0)
        x = torch.relu(x + self.residual(x))
        return self.head(self.deep(x).mean(dim=(2, 3)))


def train(images: torch.Tensor, labels: torch.Tensor) -> nn.Module:
    """A classifier fitted to ``images``, in evaluation mode."""
    torch.manual_seed(0)
    network = Classifier()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2, weight_decay=1e-2)
    steps = -(-len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, epochs=EPOCHS, steps_per_epoch=steps)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(images)).split(BATCH):
            loss = nn.functional.cross_entropy(network(images[chosen]), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return network.eval()


def export(network: nn.Module, path: Path) -> None:
    """Writes ``network`` as one ONNX file whose batch size is symbolic."""
    program = torch.onnx.export(
        network,
        (torch.zeros(2, 1, 8, 8),),
        input_names=["image"],
        output_names=["logits"],
        dynamic_shapes={"image": {0: "batch"}},
        dynamo=True,
        verbose=False,
    )
    model = program.model_proto
    for entry in (*model.graph.node, *model.graph.input, *model.graph.output, *model.graph.value_info):
        entry.ClearField("metadata_props")  # the exporter's stack traces name files of this machine
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def main() -> None:
    """Trains, prints the accuracy on the test split, exports."""
    torch.set_num_threads(1)
    images, labels = load_digits(return_X_y=True)
    pictures = images.reshape(-1, 1, 8, 8)
    split = train_test_split(pictures, labels, test_size=0.25, random_state=0, stratify=labels)
    train_images, test_images, train_labels, test_labels = split
    network = train(torch.tensor(train_images, dtype=torch.float32), torch.tensor(train_labels))
    with torch.no_grad():
        predicted = network(torch.tensor(test_images, dtype=torch.float32)).argmax(dim=1).numpy()
    print(f"test accuracy: {(predicted == test_labels).mean():.2%} of {len(test_labels)} pictures")
    export(network, FOLDER / "digits.onnx")
    np.savez(FOLDER / "digits_test.npz", images=test_images.astype(np.uint8), labels=test_labels.astype(np.uint8))


if __name__ == "__main__":
    main()
