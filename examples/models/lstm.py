"""An LSTM language model.

Letters: B batch, S sequence, W width, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Step = tuple[nn.Module, tuple[Tensor, ...], torch.optim.Optimizer]


class LanguageModel(nn.Module):
    """Embedding, LSTM, output: returns the mean loss over the tokens that have a label."""

    def __init__(self, layers: int, width: int, vocabulary: int, dropout: float):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(width, width, layers, dropout=dropout, batch_first=True)
        self.head = nn.Linear(width, vocabulary)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.05, 0.05)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """[B, S], [B, S] -> the loss. A label of -100 marks padding."""
        x, _ = self.lstm(self.dropout(self.tokens(tokens)))
        logits = self.head(self.dropout(x))  # [B, S, V]
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def random_batch(batch_size: int, sequence: int, vocabulary: int) -> tuple[Tensor, Tensor]:
    """Texts of different lengths, padded at the end: tokens and next tokens, both [B, S]."""
    text = torch.randint(vocabulary, (batch_size, sequence + 1))
    length = torch.randint(sequence // 2, sequence + 1, (batch_size, 1))
    padding = torch.arange(sequence) >= length
    return text[:, :-1].masked_fill(padding, 0), text[:, 1:].masked_fill(padding, -100)


def medium(
    layers: int = 2,
    width: int = 650,
    vocabulary: int = 10000,
    sequence: int = 35,
    batch_size: int = 20,
    dropout: float = 0.5,
    learning_rate: float = 0.1,
) -> Step:
    """The medium model of Zaremba et al. (2014), 19,780,400 parameters."""
    model = LanguageModel(layers, width, vocabulary, dropout)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=learning_rate)
    return model, random_batch(batch_size, sequence, vocabulary), optimizer


def large(layers: int = 2, width: int = 1500, dropout: float = 0.65, **options) -> Step:
    """The large model of Zaremba et al. (2014), 66,034,000 parameters."""
    return medium(layers, width, dropout=dropout, **options)


def tiny(
    layers: int = 2,
    width: int = 64,
    vocabulary: int = 256,
    sequence: int = 16,
    batch_size: int = 4,
    dropout: float = 0.1,
    learning_rate: float = 0.05,
) -> Step:
    """99,584 parameters: a second or two of training on a CPU shows the loss fall."""
    return medium(layers, width, vocabulary, sequence, batch_size, dropout, learning_rate)
