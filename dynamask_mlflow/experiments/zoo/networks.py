"""The networks of the zoo: as small as they can be and still learn."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

WIDTH = 24


class Gru(nn.Module):
    """A GRU, the mean of its states, two logits."""

    def __init__(self, channels: int, outputs: int = 2) -> None:
        super().__init__()
        self.recurrent = nn.GRU(channels, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, outputs)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.recurrent(x)
        out: Tensor = self.head(states.mean(1))
        return out


class Packed(nn.Module):
    """A GRU or LSTM that packs its sequences by their lengths."""

    def __init__(self, channels: int, kind: type[nn.GRU] | type[nn.LSTM] = nn.GRU) -> None:
        super().__init__()
        self.recurrent = kind(channels, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, sizes = pad_packed_sequence(self.recurrent(packed)[0], batch_first=True)
        out: Tensor = self.head(states.sum(1) / sizes.to(x)[:, None])
        return out


class Transformer(nn.Module):
    """One encoder layer; the padding mask may be left out, and then the padding is read."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.embed = nn.Linear(channels, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(32, 2)

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        states = self.layer(self.embed(x), src_key_padding_mask=padding_mask)
        if padding_mask is None:
            summary = states.mean(1)
        else:
            valid = (~padding_mask).to(x)[:, :, None]
            summary = (states * valid).sum(1) / valid.sum(1)
        out: Tensor = self.head(summary)
        return out


class Tcn(nn.Module):
    """Dilated convolutions along time."""

    def __init__(self, channels: int, outputs: int = 2) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(channels, WIDTH, 3, padding=1),
            nn.ReLU(),
            nn.Conv1d(WIDTH, WIDTH, 3, padding=2, dilation=2),
            nn.ReLU(),
            nn.Conv1d(WIDTH, WIDTH, 3, padding=4, dilation=4),
            nn.ReLU(),
        )
        self.head = nn.Linear(WIDTH, outputs)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(x.transpose(1, 2)).mean(2))
        return out


class ChannelsFirst(Tcn):
    """The same on (B, d, T)."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.transpose(1, 2))


class Inception(nn.Module):
    """Three kernel lengths side by side, twice, as InceptionTime has them."""

    def __init__(self, channels: int, outputs: int = 2) -> None:
        super().__init__()
        self.first = nn.ModuleList([nn.Conv1d(channels, 8, size, padding=size // 2) for size in (3, 7, 11)])
        self.second = nn.ModuleList([nn.Conv1d(24, 8, size, padding=size // 2) for size in (3, 7, 11)])
        self.head = nn.Linear(24, outputs)

    def forward(self, x: Tensor) -> Tensor:
        z = x.transpose(1, 2)
        for layer in (self.first, self.second):
            z = torch.relu(torch.cat([branch(z) for branch in layer], 1))
        out: Tensor = self.head(z.mean(2))
        return out


class DictGru(Gru):
    """Takes one dictionary."""

    def forward(self, batch: dict[str, Tensor]) -> Tensor:  # type: ignore[override]
        states, _ = self.recurrent(batch["values"])
        valid = (torch.arange(states.shape[1], device=states.device)[None] < batch["sizes"][:, None]).to(states)
        out: Tensor = self.head((states * valid[:, :, None]).sum(1) / valid.sum(1, keepdim=True))
        return out


class GruD(nn.Module):
    """GRU-D (Che et al., 2018): values, mask and time gaps, with decays of the input and of the hidden state.

    x~ = m x + (1 - m) gamma_x x_last and h <- gamma_h h before each step, gamma = exp(-relu(w delta + b)). Here x comes
    carried forward, so that x_last = x where m = 0, and the mean to which it decays is 0.
    """

    def __init__(self, channels: int, static: int = 0) -> None:
        super().__init__()
        self.cell = nn.GRUCell(2 * channels, WIDTH)
        self.input_decay = nn.Parameter(torch.full((channels,), 0.1))
        self.hidden_decay = nn.Linear(channels, WIDTH)
        self.head = nn.Linear(WIDTH + static, 2)

    def states(self, x: Tensor, mask: Tensor, delta: Tensor) -> Tensor:
        """(B, WIDTH): the mean of the hidden states."""
        return self.each_state(x, mask, delta).mean(1)

    def each_state(self, x: Tensor, mask: Tensor, delta: Tensor) -> Tensor:
        """(B, T, WIDTH)."""
        hidden = x.new_zeros(x.shape[0], WIDTH)
        found = []
        for t in range(x.shape[1]):
            kept = torch.exp(-torch.relu(self.input_decay * delta[:, t]))
            value = mask[:, t] * x[:, t] + (1 - mask[:, t]) * kept * x[:, t]
            hidden = hidden * torch.exp(-torch.relu(self.hidden_decay(delta[:, t])))
            hidden = self.cell(torch.cat([value, mask[:, t]], 1), hidden)
            found.append(hidden)
        return torch.stack(found, 1)


class GruDWithStatic(GruD):
    def forward(self, values: Tensor, mask: Tensor, delta: Tensor, static: Tensor) -> Tensor:
        out: Tensor = self.head(torch.cat([self.states(values, mask, delta), static], 1))
        return out


class GruDAlone(GruD):
    """Without static features; it remembers the largest states, so that it learns to count in a short training."""

    def forward(self, values: Tensor, mask: Tensor, delta: Tensor) -> Tensor:
        out: Tensor = self.head(self.each_state(values, mask, delta).amax(1))
        return out


class Embedding(nn.Module):
    """Codes of the steps, embedded, scale what the convolutions read."""

    def __init__(self, channels: int, codes: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(codes, channels)
        self.body = Tcn(channels)

    def forward(self, x: Tensor, codes: Tensor) -> Tensor:
        out: Tensor = self.body(x * self.embed(codes))
        return out


class WithStates(Gru):
    """Returns its logits and its states."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        states, _ = self.recurrent(x)
        return self.head(states.mean(1)), states


@dataclass
class Answer:
    """An output with fields, as libraries have them."""

    loss: Tensor | None
    hidden: Tensor
    logits: Tensor


class WithFields(Gru):
    def forward(self, x: Tensor) -> Answer:  # type: ignore[override]
        states, _ = self.recurrent(x)
        return Answer(None, states, self.head(states.mean(1)))


class Forecaster(nn.Module):
    """(B, H, d) in one go, or (B, H)."""

    def __init__(self, channels: int, horizons: int, every_channel: bool) -> None:
        super().__init__()
        self.shape = (horizons, channels) if every_channel else (horizons,)
        self.body = Tcn(channels, horizons * (channels if every_channel else 1))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.body(x)
        return out.reshape(x.shape[0], *self.shape)
